package cron_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/cron"
)

// oracleSpec is an expression as the oracle takes it: spelled out, so that it
// shares nothing with the parser. A field that is nil is open.
type oracleSpec struct {
	spec                                 string
	hourly                               bool
	minutes, hours, days, months, onDays []int
}

var oracleSpecs = []oracleSpec{
	{"0 0 * * *", false, []int{0}, []int{0}, nil, nil, nil},
	{"59 23 * * *", false, []int{59}, []int{23}, nil, nil, nil},
	{"15 0,1 * * *", false, []int{15}, []int{0, 1}, nil, nil, nil},
	{"0 2 * * *", false, []int{0}, []int{2}, nil, nil, nil},
	{"30 2 * * *", false, []int{30}, []int{2}, nil, nil, nil},
	{"45 1 * * *", false, []int{45}, []int{1}, nil, nil, nil},
	{"5 1-5 * * *", false, []int{5}, []int{1, 2, 3, 4, 5}, nil, nil, nil},
	{"10 */2 * * *", false, []int{10}, []int{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}, nil, nil, nil},
	{"30 2 * * SUN", false, []int{30}, []int{2}, nil, nil, []int{0}},
	{"30 2 1,15 * SAT,SUN", false, []int{30}, []int{2}, []int{1, 15}, nil, []int{0, 6}},
	{"0 3 25-31 3,10 *", false, []int{0}, []int{3}, []int{25, 26, 27, 28, 29, 30, 31}, []int{3, 10}, nil},
	{"0 * * * *", true, []int{0}, nil, nil, nil, nil},
	{"30 * * * *", true, []int{30}, nil, nil, nil, nil},
	{"0 * * * SUN", true, []int{0}, nil, nil, nil, []int{0}},
	{"*/10 * * * *", true, []int{0, 10, 20, 30, 40, 50}, nil, nil, nil, nil},
	{"* * * * *", true, nil, nil, nil, nil, nil},
	{"0,30 2 * * *", true, []int{0, 30}, []int{2}, nil, nil, nil},
	{"0,30 2,4 * * *", true, []int{0, 30}, []int{2, 4}, nil, nil, nil},
	{"5,35 0-3 * * *", true, []int{5, 35}, []int{0, 1, 2, 3}, nil, nil, nil},
	{"20-40/20 23,0 * * *", true, []int{20, 40}, []int{23, 0}, nil, nil, nil},
	{"* 2 30 12 *", true, nil, []int{2}, []int{30}, []int{12}, nil},
}

// shows says whether the expression names what a local clock shows.
func (o *oracleSpec) shows(clock time.Time) bool {
	in := func(list []int, value int) bool { return list == nil || slices.Contains(list, value) }
	if !in(o.minutes, clock.Minute()) || !in(o.hours, clock.Hour()) || !in(o.months, int(clock.Month())) {
		return false
	}
	byDay, byWeekday := in(o.days, clock.Day()), in(o.onDays, int(clock.Weekday()))
	if o.days != nil && o.onDays != nil {
		return byDay || byWeekday
	}
	return byDay && byWeekday
}

// walk is what a zone's clock shows, minute by minute. A local time is written
// down as if it were one of UTC.
type walk struct {
	begin  time.Time
	clocks []time.Time
	first  map[time.Time]int // when a local time is shown for the first time
}

func newWalk(begin time.Time, minutes int, zone *time.Location) *walk {
	w := &walk{begin: begin, first: map[time.Time]int{}}
	for i := range minutes {
		l := w.at(i).In(zone)
		clock := time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)
		w.clocks = append(w.clocks, clock)
		if _, before := w.first[clock]; !before {
			w.first[clock] = i
		}
	}
	return w
}

func (w *walk) at(i int) time.Time { return w.begin.Add(time.Duration(i) * time.Minute) }

// ticks are the minutes at which an expression runs.
func (w *walk) ticks(o *oracleSpec) map[int]bool {
	runs := map[int]bool{}
	for i, clock := range w.clocks {
		switch {
		case !o.shows(clock):
		case o.hourly, w.first[clock] == i:
			runs[i] = true
		}
		if i == 0 {
			continue
		}
		for skipped := w.clocks[i-1].Add(time.Minute); skipped.Before(clock); skipped = skipped.Add(time.Minute) {
			if !o.shows(skipped) {
				continue
			}
			soon := slices.ContainsFunc(w.clocks[i:min(i+60, len(w.clocks))], o.shows)
			if !o.hourly || !soon {
				runs[i] = true
			}
		}
	}
	return runs
}

// transitions are the hours of a stretch of time in which a zone's offset changes.
func transitions(zone *time.Location, from, until time.Time) (all []time.Time) {
	_, offset := from.In(zone).Zone()
	for t := from; t.Before(until); t = t.Add(time.Hour) {
		if _, now := t.In(zone).Zone(); now != offset {
			offset = now
			all = append(all, t)
		}
	}
	return all
}

// checkTransitions holds the package against the oracle for three days either
// side of each transition of a zone.
func checkTransitions(t *testing.T, name string, from, until time.Time) (n int) {
	t.Helper()
	const (
		leadIn = 2 * 24 * 60 // minutes in which an earlier transition may still matter
		side   = 3 * 24 * 60
	)
	zone, err := cron.Zone(name)
	require.NoError(t, err)
	for _, transition := range transitions(zone, from, until) {
		n++
		w := newWalk(transition.Add(-(leadIn+side)*time.Minute), leadIn+2*side+60, zone)
		for i := range oracleSpecs {
			o := &oracleSpecs[i]
			s, err := cron.Parse(o.spec)
			require.NoError(t, err)
			runs := w.ticks(o)
			next := s.Next(w.at(leadIn-1), zone)
			for m := leadIn; m < leadIn+2*side; m++ {
				at := w.at(m)
				if got := next.Equal(at); got != runs[m] {
					t.Fatalf("%s: %q at %s: it runs: %t, by the oracle: %t; next is %s", name, o.spec, at.In(zone), got, runs[m], next)
				}
				if next.Equal(at) {
					next = s.Next(at, zone)
				}
			}
			require.False(t, next.Before(w.at(leadIn+2*side)), "%s: %q at %s", name, o.spec, next)
		}
	}
	return n
}

func TestOracle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone     string
		from, to int
	}{
		{"Australia/Lord_Howe", 2019, 2026}, // half an hour
		{"Pacific/Chatham", 2019, 2026},     // at 02:45
		{"Pacific/Apia", 2010, 2014},        // a day left out
		{"Africa/Casablanca", 2012, 2026},   // for Ramadan, four a year; then an hour ahead for good
		{"Africa/Cairo", 2010, 2026},        // at midnight, and on the last Friday
		{"America/Havana", 2019, 2026},      // no midnight
		{"Asia/Beirut", 2019, 2026},         // no midnight, and one midnight twice
		{"America/St_Johns", 2005, 2013},    // at 00:01
		{"Antarctica/Troll", 2019, 2026},    // two hours
		{"Asia/Kathmandu", 1985, 1988},      // a quarter of an hour, once
		{"Pacific/Kiritimati", 1993, 1997},  // a day left out, at its midnight
		{"America/Los_Angeles", 2019, 2026},
		{"Europe/Dublin", 2019, 2026}, // winter is the exception
		{"America/Nuuk", 2019, 2026},  // the evening before
		{"Asia/Pyongyang", 2014, 2019},
	} {
		t.Run(c.zone, func(t *testing.T) {
			t.Parallel()
			n := checkTransitions(t, c.zone, year(c.from), year(c.to))
			require.Positive(t, n)
		})
	}
}

func year(n int) time.Time { return at(fmt.Sprintf("%d-01-01T00:00:00Z", n)) }
