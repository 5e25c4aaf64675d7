package tests

import (
	"testing"
	"time"

	"github.com/rushgate/rushgate/clients/go/internal/cron"
	"github.com/rushgate/rushgate/clients/go/internal/nfc"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

func TestNamesAreNormalized(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                 "plain",
		"e\u0301":               "é",
		"\u212b":                "Å",
		"a\u0301\u0323":         "ạ\u0301",
		"\u1112\u1161\u11ab":    "한",
		"\ud55c":                "한",
		"\u0958":                "\u0915\u093c",
		"x\u0304":               "x\u0304",
		"\u1e9b\u0323":          "\u1e9b\u0323",
		"\u0344":                "\u0308\u0301",
		"q\u0307\u0323e\u0301":  "q\u0323\u0307é",
		"\U0001d15e and \u2126": "\U0001d157\U0001d165 and Ω",
	} {
		if got := nfc.String(text); got != want {
			t.Errorf("%+q: %+q, not %+q", text, got, want)
		}
	}
}

func TestCronPatternsOccurInTheirTimeZone(t *testing.T) {
	after := time.Date(2026, time.November, 22, 12, 0, 0, 500, time.UTC) // A Sunday.
	for _, one := range []struct{ pattern, zone, want string }{
		{"30 3 * * *", "Europe/Berlin", "2026-11-23T03:30:00+01:00"},
		{"@daily", "UTC", "2026-11-23T00:00:00Z"},
		{"*/15 * * * *", "UTC", "2026-11-22T12:15:00Z"},
		{"5-59/20 8-10 * * *", "UTC", "2026-11-23T08:05:00Z"},
		{"*/10 * * * * *", "UTC", "2026-11-22T12:00:10Z"},
		{"0 9 * * mon-fri", "America/New_York", "2026-11-23T09:00:00-05:00"},
		{"0 0 29 feb *", "UTC", "2028-02-29T00:00:00Z"},
		{"0 0 13 * 5", "UTC", "2026-11-27T00:00:00Z"},
		{"0 0 * * 7", "UTC", "2026-11-29T00:00:00Z"},
		{"30 2 28 3 *", "Europe/Berlin", "2027-03-28T03:00:00+02:00"},
		{"*/10 2 28 3 *", "Europe/Berlin", "2028-03-28T02:00:00+02:00"},
		{"30 2 31 10 *", "Europe/Berlin", "2027-10-31T02:30:00+02:00"},
		{"0 0 ? * 1", "UTC", "2026-11-23T00:00:00Z"},
		{"0 2,4 31 10 *", "Europe/Berlin", "2027-10-31T02:00:00+02:00"},
	} {
		zone, err := time.LoadLocation(one.zone)
		fail(t, err)
		next, err := cron.Next(one.pattern, after.In(zone))
		if err != nil || next.Format(time.RFC3339) != one.want {
			t.Errorf("%s: %v, %v, not %s", one.pattern, next, err, one.want)
		}
	}
	first := time.Date(2027, time.October, 31, 0, 30, 0, 0, time.UTC) // 2:30, for the first time.
	for pattern, want := range map[string]string{"30 2 * * *": "2027-11-01T02:30:00+01:00", "30 2,4 * * *": "2027-10-31T02:30:00+01:00"} {
		berlin := testenv.Must[*time.Location](t)(time.LoadLocation("Europe/Berlin"))
		if next, err := cron.Next(pattern, first.In(berlin)); err != nil || next.Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v, not %s", pattern, next, err, want)
		}
	}
	for _, pattern := range []string{"", "* * * *", "60 * * * *", "*/0 * * * *", "5-3 * * * *", "a * * * *", "0 0 31 4 *", "5/20 * * * *", "0 0 L * *", "* * * * * * *"} {
		if next, err := cron.Next(pattern, after); err == nil {
			t.Errorf("%q: %v", pattern, next)
		}
	}
}
