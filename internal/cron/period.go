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
	for before := p; before.start > p.start-memory && before.start != never; {
		before = bare(time.Unix(before.start-1, 0), zone)
		p.shown = max(p.shown, before.localEnd())
	}
	return p
}

// bare is a period without what was shown before it.
func bare(t time.Time, zone *time.Location) period {
	local := t.In(zone)
	_, offset := local.Zone()
	p := period{start: never, end: forever, offset: int64(offset)}
	start, end := local.ZoneBounds()
	if !start.IsZero() {
		p.start = start.Unix()
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	return p
}

// next is the period that follows, which there has to be.
func (p period) next(zone *time.Location) period {
	return periodAt(time.Unix(p.end, 0), zone)
}

// localEnd is how far the local clock gets.
func (p period) localEnd() int64 {
	if p.end == forever {
		return forever
	}
	return p.end + p.offset
}
