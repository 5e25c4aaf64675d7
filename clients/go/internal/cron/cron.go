// Package cron computes the occurrences of cron patterns.
package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

var nicknames = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// fields in the order of a pattern, with their lowest and highest values.
var fields = [...]struct {
	low, high int
	names     []string
}{
	{0, 59, nil}, {0, 59, nil}, {0, 23, nil}, {1, 31, nil},
	{1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{0, 7, strings.Fields("sun mon tue wed thu fri sat")},
}

// A pattern that does not occur within these years never does.
const years = 9

// The longest time that clocks skip or repeat.
const changeMax = 3 * time.Hour

type pattern struct {
	seconds, minutes, hours, days, months, weekdays map[int]bool
	// eitherDay: if days and weekdays are both restricted, one of them suffices.
	eitherDay bool
}

// Next returns the first occurrence of a pattern after a moment, in its time zone. A pattern has five fields, or six with
// seconds in front: numbers, names, lists, ranges and steps, or is a nickname such as @daily. A fixed time, which has one
// hour, minute and second, moves to the next time that exists if the clocks skip it, and occurs once if they repeat it.
func Next(text string, after time.Time) (time.Time, error) {
	parsed, err := parse(text)
	if err != nil {
		return time.Time{}, err
	}
	at := after.Truncate(time.Second).Add(time.Second)
	for last := at.Year() + years; at.Year() <= last; {
		switch year, month, day := at.Date(); {
		case !parsed.months[int(month)]:
			at = midnight(at, year, month+1, 1)
		case !parsed.isDay(at):
			at = midnight(at, year, month, day+1)
		case !parsed.afterGap(at).IsZero():
			return parsed.afterGap(at), nil
		case !parsed.hours[at.Hour()]:
			at = at.Add(time.Hour - time.Duration(at.Minute())*time.Minute - time.Duration(at.Second())*time.Second)
		case !parsed.minutes[at.Minute()]:
			at = at.Add(time.Minute - time.Duration(at.Second())*time.Second)
		case !parsed.seconds[at.Second()] || parsed.isFixed() && isRepeated(at):
			at = at.Add(time.Second)
		default:
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q never matches", text)
}

// midnight returns the beginning of a later day. A zone may have no midnight on that day.
func midnight(at time.Time, year int, month time.Month, day int) time.Time {
	next := time.Date(year, month, day, 0, 0, 0, 0, at.Location())
	for next.Day() == at.Day() && next.Month() == at.Month() {
		next = next.Add(time.Hour)
	}
	return next
}

// afterGap returns when the gap ends in which the clocks skip the fixed time of the pattern on a day. Zero if there is no
// such gap after the moment.
func (p *pattern) afterGap(at time.Time) time.Time {
	if !p.isFixed() {
		return time.Time{}
	}
	fixed := only(p.hours)*60 + only(p.minutes)
	year, month, day := at.Date()
	if minuteOf(time.Date(year, month, day, fixed/60, fixed%60, 0, 0, at.Location())) == fixed {
		return time.Time{}
	}
	end := time.Date(year, month, day, 0, 0, 0, 0, at.Location())
	for end.Day() == day && minuteOf(end) < fixed {
		end = end.Add(time.Minute)
	}
	if end.Before(at) {
		return time.Time{}
	}
	return end
}

// isFixed reports whether the pattern has one hour, minute and second.
func (p *pattern) isFixed() bool {
	return len(p.hours) == 1 && len(p.minutes) == 1 && len(p.seconds) == 1
}

// isRepeated reports whether the clocks showed the same time before, because they were turned back since.
func isRepeated(at time.Time) bool {
	_, offset := at.Zone()
	_, before := at.Add(-changeMax).Zone()
	_, first := at.Add(time.Duration(offset-before) * time.Second).Zone()
	return before > offset && first == before
}

func minuteOf(at time.Time) int { return at.Hour()*60 + at.Minute() }

// only returns the value of a set of one.
func only(set map[int]bool) int {
	for value := range set {
		return value
	}
	return 0
}

func (p *pattern) isDay(at time.Time) bool {
	byDay, byWeekday := p.days[at.Day()], p.weekdays[int(at.Weekday())]
	if p.eitherDay {
		return byDay || byWeekday
	}
	return byDay && byWeekday
}

func parse(text string) (*pattern, error) {
	if full, found := nicknames[text]; found {
		text = full
	}
	words := strings.Fields(strings.ToLower(text))
	if len(words) == len(fields)-1 {
		words = append([]string{"0"}, words...)
	}
	if len(words) != len(fields) {
		return nil, fmt.Errorf("%q must have five or six fields", text)
	}
	var sets [len(fields)]map[int]bool
	for at, word := range words {
		set, err := parseField(word, at)
		if err != nil {
			return nil, err
		}
		sets[at] = set
	}
	// Sunday is 0 and 7.
	sets[5][0] = sets[5][0] || sets[5][7]
	return &pattern{sets[0], sets[1], sets[2], sets[3], sets[4], sets[5], !isAny(words[3]) && !isAny(words[5])}, nil
}

func parseField(word string, field int) (map[int]bool, error) {
	set := map[int]bool{}
	for _, part := range strings.Split(word, ",") {
		first, last, step, err := parsePart(part, field)
		if err != nil {
			return nil, err
		}
		for value := first; value <= last; value += step {
			set[value] = true
		}
	}
	return set, nil
}

func isAny(word string) bool { return word == "*" || word == "?" }

// parsePart reads *, a number or a range. All but a number can have a step.
func parsePart(part string, field int) (first, last, step int, err error) {
	bounds, stepText, hasStep := strings.Cut(part, "/")
	step = 1
	if hasStep {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
			return 0, 0, 0, fmt.Errorf("has the step %q, which must be a number of 1 or more", part)
		}
	}
	low, high := fields[field].low, fields[field].high
	if isAny(bounds) {
		return low, high, step, nil
	}
	from, to, isRange := strings.Cut(bounds, "-")
	if first, err = parseValue(from, field); err == nil {
		last = first
		if isRange {
			last, err = parseValue(to, field)
		}
	}
	if err != nil || hasStep && !isRange || first < low || last > high || first > last {
		return 0, 0, 0, fmt.Errorf("has the field %q, which is malformed or out of range", part)
	}
	return first, last, step, nil
}

func parseValue(text string, field int) (int, error) {
	for at, name := range fields[field].names {
		if text == name {
			return at + fields[field].low, nil
		}
	}
	return strconv.Atoi(text)
}
