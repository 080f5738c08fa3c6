package cron

import (
	"math"
	"time"
)

// memory is for how long an earlier period can matter: a zone's offset is less
// than a day either way, so the clock of a period that ended earlier was behind.
const memory = 2 * day

// period is a stretch of time in which a zone has one offset. Instants are in
// seconds since 1970-01-01 00:00 UTC.
type period struct {
	start, end int64 // [start, end)
	offset     int64 // of the local clock
	// shown is how far the local clock had got before the start: each local time
	// below it was shown, or skipped.
	shown int64
}

// Times that no period reaches.
const (
	never   = math.MinInt64 / 4
	forever = math.MaxInt64 / 4
)

func periodAt(t time.Time, zone *time.Location) period {
	p := bare(t, zone)
	p.shown = never
	for start := p.start; start > p.start-memory && start != never; {
		before := bare(time.Unix(start-1, 0), zone)
		before.end = start
		p.shown = max(p.shown, before.localEnd())
		start = before.start
	}
	return p
}

// bare is a period without what was shown before it.
func bare(t time.Time, zone *time.Location) period {
	local := t.In(zone)
	_, offset := local.Zone()
	p := period{start: never, end: forever, offset: int64(offset)}
	start, end := local.ZoneBounds()
	now := t.Unix()
	if !start.IsZero() {
		p.start = min(start.Unix(), now)
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	if p.end <= now {
		// Beyond a zone's table ZoneBounds has years of 365 days: on the last day
		// of a leap year the end that it tells has passed. That day has no
		// transition; a period that is cut in two is as good as one.
		p.end = (floorDiv(now, day) + 1) * day
	}
	return p
}

// next is the period that follows, which there has to be.
func (p period) next(zone *time.Location) period {
	next := bare(time.Unix(p.end, 0), zone)
	next.start, next.shown = p.end, max(p.shown, p.localEnd())
	return next
}

// localEnd is how far the local clock gets.
func (p period) localEnd() int64 {
	if p.end == forever {
		return forever
	}
	return p.end + p.offset
}
