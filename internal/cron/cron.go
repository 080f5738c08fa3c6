// Package cron reads cron expressions and finds the instants that they name in
// a time zone.
//
//	s, err := cron.Parse("30 2 * * *")
//	if err != nil {
//		return err
//	}
//	zone, err := cron.Zone("America/Los_Angeles")
//	if err != nil {
//		return err
//	}
//	next := s.Next(time.Now(), zone)
//
// # Expressions
//
// Five fields: minute, hour, day of month, month, day of week. Each is "*", or a
// list of values, ranges and steps: "0,30", "9-17", "*/15", "8-18/2". Months and
// days of the week have their English names of three letters, and Sunday is 0 or
// 7. Where day of month and day of week are both given, a day that matches
// either one matches; a field is given unless it is "*" or "*/1".
//
// "@hourly", "@daily" or "@midnight", "@weekly", "@monthly", "@yearly" or
// "@annually" are short for such fields. "@every 90s" is no time of day: its
// ticks are the multiples of the interval since 1970-01-01 00:00 UTC, in every
// zone and wherever it is computed.
//
// # When clocks change
//
// The offset of a zone changes by a transition: the local clock is put forward,
// so that some local times do not exist, or back, so that some exist twice.
//
// A run of the day takes place exactly once: at the first instant at which the
// local clock shows its time or a later one. So where its time does not exist it
// takes place at the transition, and where its time exists twice, at the first.
//
// What is hourly or finer follows elapsed time: a schedule whose hour field names
// every hour, or whose minute field names more than one minute. It runs at each
// instant whose local time matches; so the runs of a repeated hour take place
// twice, and those of a skipped hour do not. Only where nothing else runs
// within an hour of the transition, one run at the transition makes up for
// skipped ones: "*/15 2 * * *" runs on every day.
//
// Ticks are instants. Two runs that fall on the same one are one tick.
//
// The package has a parser of its own since it refuses what never runs and says
// where an expression is wrong.
package cron

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Schedule is a parsed expression, made by [Parse].
type Schedule struct {
	spec  string
	every int64 // seconds; 0 for fields
	// Bit n of a field stands for its value n.
	minute, hour, day, month, weekday uint64
	anyDay, anyWeekday                bool // the field is not given
}

// String returns the expression.
func (s Schedule) String() string { return s.spec }

// hourly says whether the schedule follows elapsed time.
func (s Schedule) hourly() bool {
	return s.hour == fields[hourField].all() || bits.OnesCount64(s.minute) > 1
}

// Next returns the first tick after an instant, and the zero time for the zero
// Schedule.
func (s Schedule) Next(after time.Time, zone *time.Location) time.Time {
	switch {
	case s.every > 0:
		return time.Unix((floorDiv(after.Unix(), s.every)+1)*s.every, 0).In(zone)
	case s.minute == 0:
		return time.Time{}
	}
	p := periodAt(after, zone)
	from := floorDiv(after.Unix()+p.offset, minute)*minute + minute
	for {
		if at, ok := s.in(p, from); ok {
			return time.Unix(at-p.offset, 0).In(zone)
		}
		next := p.next(zone)
		if at, ok := s.madeUp(next); ok {
			return time.Unix(at, 0).In(zone)
		}
		p, from = next, next.start+next.offset
	}
}

// in returns the first tick in a period, as local time, from a local time on.
func (s Schedule) in(p period, from int64) (int64, bool) {
	if !s.hourly() {
		from = max(from, p.shown) // what the clock has shown has had its run
	}
	return s.first(from, p.localEnd())
}

// madeUp returns the beginning of a period, where there is a tick for local
// times that were skipped there.
func (s Schedule) madeUp(p period) (int64, bool) {
	local := p.start + p.offset
	if _, skipped := s.first(p.shown, local); !skipped {
		return 0, false
	}
	if s.hourly() {
		if _, soon := s.first(local, min(local+hour, p.localEnd())); soon {
			return 0, false
		}
	}
	return p.start, true
}

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// first returns the first local time that matches in [from, until), in seconds
// since 1970-01-01 00:00 of the local clock.
func (s Schedule) first(from, until int64) (int64, bool) {
	from = floorDiv(from+minute-1, minute) * minute
	for from < until {
		date := floorDiv(from, day)
		t := time.Unix(date*day, 0).UTC()
		switch {
		case s.month&(1<<t.Month()) == 0:
			from = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC).Unix()
			continue
		case s.matches(t):
			if at, ok := s.timeOfDay(from - date*day); ok {
				at += date * day
				return at, at < until
			}
		}
		from = (date + 1) * day
	}
	return 0, false
}

// matches says whether the schedule runs on the day of t, in one of its months.
func (s Schedule) matches(t time.Time) bool {
	byDay, byWeekday := s.day&(1<<t.Day()) != 0, s.weekday&(1<<t.Weekday()) != 0
	if s.anyDay || s.anyWeekday {
		return byDay && byWeekday
	}
	return byDay || byWeekday
}

// timeOfDay returns the first time of day that matches from one on.
func (s Schedule) timeOfDay(from int64) (int64, bool) {
	h, m := from/hour, from%hour/minute
	if s.hour&(1<<h) != 0 {
		if rest := s.minute >> m << m; rest != 0 {
			return h*hour + int64(bits.TrailingZeros64(rest))*minute, true
		}
	}
	rest := s.hour >> (h + 1) << (h + 1)
	if rest == 0 {
		return 0, false
	}
	return int64(bits.TrailingZeros64(rest))*hour + int64(bits.TrailingZeros64(s.minute))*minute, true
}

// lookBack is how far [Schedule.Due] looks back.
const lookBack = 366 * 24 * time.Hour

// Due returns the ticks after one instant and up to another: the last ones, at
// most the given number, oldest first, and how many there are in all. It looks
// back a year at most.
func (s Schedule) Due(after, until time.Time, zone *time.Location, most int) (last []time.Time, all int) {
	if begin := until.Add(-lookBack); after.Before(begin) {
		after = begin
	}
	if s.every > 0 { // there may be millions
		end := floorDiv(until.Unix(), s.every)
		all = int(max(end-floorDiv(after.Unix(), s.every), 0))
		for n := range min(int64(all), int64(most)) {
			last = append(last, time.Unix((end-n)*s.every, 0).In(zone))
		}
		slices.Reverse(last)
		return last, all
	}
	for at := s.Next(after, zone); !at.IsZero() && !at.After(until); at = s.Next(at, zone) {
		all++
		if last = append(last, at); len(last) >= 2*most {
			last = append(last[:0], last[len(last)-most:]...)
		}
	}
	return last[max(len(last)-most, 0):], all
}

// Zone returns the time zone of an IANA name. It takes no name that means another
// zone on another machine.
func Zone(name string) (*time.Location, error) {
	switch name {
	case "", "Local", "localtime", "posixrules":
		return nil, fmt.Errorf("%q is no name of a time zone: write one like UTC or Europe/Lisbon", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("there is no time zone %q: write one of the IANA database, like UTC or Europe/Lisbon", name)
	}
	return zone, nil
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
