// Package nfc normalizes names to Unicode Normalization Form C, in which every client sends them.
package nfc

import (
	"sort"
	"sync"
)

// decomposition is one step of a canonical decomposition. If it composes, the two parts become the whole again.
type decomposition struct {
	whole, first, second rune
	composes             bool
}

type classRange struct {
	first, last rune
	class       uint8
}

// Hangul syllables are decomposed by calculation.
const (
	syllableBase, leadBase, vowelBase, trailBase = 0xac00, 0x1100, 0x1161, 0x11a7
	leads, vowels, trails                        = 19, 21, 28
	syllables                                    = leads * vowels * trails
)

type maps struct {
	decomposed map[rune]decomposition
	composed   map[[2]rune]rune
}

var (
	tables maps
	built  sync.Once
)

func build() {
	tables = maps{map[rune]decomposition{}, map[[2]rune]rune{}}
	for _, one := range decompositions {
		tables.decomposed[one.whole] = one
		if one.composes {
			tables.composed[[2]rune{one.first, one.second}] = one.whole
		}
	}
}

// String returns the text in Normalization Form C.
func String(text string) string {
	if isPlain(text) {
		return text
	}
	built.Do(build)
	return string(compose(order(decompose(text))))
}

// isPlain reports whether all characters precede the first one that normalization may change.
func isPlain(text string) bool {
	for _, char := range text {
		if char >= 0x300 {
			return false
		}
	}
	return true
}

func decompose(text string) []rune {
	runes := make([]rune, 0, len(text))
	for _, char := range text {
		runes = appendDecomposed(runes, char)
	}
	return runes
}

func appendDecomposed(runes []rune, char rune) []rune {
	if at := char - syllableBase; at >= 0 && at < syllables {
		runes = append(runes, leadBase+at/(vowels*trails), vowelBase+at%(vowels*trails)/trails)
		if trail := at % trails; trail > 0 {
			runes = append(runes, trailBase+trail)
		}
		return runes
	}
	step, found := tables.decomposed[char]
	if !found {
		return append(runes, char)
	}
	runes = appendDecomposed(runes, step.first)
	if step.second != 0 {
		runes = appendDecomposed(runes, step.second)
	}
	return runes
}

// order sorts each run of combining characters by class.
func order(runes []rune) []rune {
	for begin := 0; begin < len(runes); begin++ {
		end := begin
		for end < len(runes) && classOf(runes[end]) != 0 {
			end++
		}
		marks := runes[begin:end]
		sort.SliceStable(marks, func(one, other int) bool { return classOf(marks[one]) < classOf(marks[other]) })
		begin = end
	}
	return runes
}

func classOf(char rune) uint8 {
	at := sort.Search(len(classes), func(at int) bool { return classes[at].last >= char })
	if at < len(classes) && classes[at].first <= char {
		return classes[at].class
	}
	return 0
}

// compose joins each starter with the characters after it that nothing of the same or a higher class separates from it.
func compose(runes []rune) []rune {
	composed := runes[:0]
	starter, last := -1, uint8(0)
	for _, char := range runes {
		class := classOf(char)
		isNext := starter == len(composed)-1
		if starter >= 0 && (isNext || last < class && last != 0) {
			if whole, found := join(composed[starter], char); found {
				composed[starter] = whole
				continue
			}
		}
		if class == 0 {
			starter = len(composed)
		}
		last = class
		composed = append(composed, char)
	}
	return composed
}

func join(first, second rune) (rune, bool) {
	if lead, vowel := first-leadBase, second-vowelBase; lead >= 0 && lead < leads && vowel >= 0 && vowel < vowels {
		return syllableBase + (lead*vowels+vowel)*trails, true
	}
	syllable, trail := first-syllableBase, second-trailBase
	if syllable >= 0 && syllable < syllables && syllable%trails == 0 && trail > 0 && trail < trails {
		return first + trail, true
	}
	whole, found := tables.composed[[2]rune{first, second}]
	return whole, found
}
