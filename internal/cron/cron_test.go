package cron_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/cron"
)

// ticks are all ticks in a stretch of time, as local times with their offset.
func ticks(t *testing.T, spec, zone, from, until string) (all []string) {
	t.Helper()
	z, err := cron.Zone(zone)
	require.NoError(t, err)
	s := parse(t, spec)
	for next := s.Next(at(from), z); !next.After(at(until)); next = s.Next(next, z) {
		all = append(all, next.Format("02T15:04-07"))
	}
	return all
}

func TestClocksPutForward(t *testing.T) {
	t.Parallel()
	day := func(spec string) []string { // the one when Los Angeles has no 02:00 to 02:59
		return ticks(t, spec, "America/Los_Angeles", "2025-03-09T07:59:59Z", "2025-03-10T06:59:59Z")
	}
	require.Equal(t, []string{"09T03:00-07"}, day("0 2 * * *"))
	require.Equal(t, []string{"09T03:00-07"}, day("30 2 * * *"))
	require.Equal(t, []string{"09T03:00-07"}, day("0 2,3 * * *"), "one instant, one tick")
	require.Equal(t, []string{"09T01:30-08", "09T03:00-07", "09T03:30-07"}, day("30 1-3 * * *"))
	require.Equal(t, []string{"09T03:00-07"}, day("*/15 2 * * *"), "made up for")
	require.Equal(t, []string{"09T01:20-08", "09T01:40-08", "09T03:20-07", "09T03:40-07"}, day("20,40 1-3 * * *"))
	require.Len(t, day("0 * * * *"), 23)
	require.Len(t, day("*/10 * * * *"), 23*6)
	require.Len(t, day("@every 10m"), 23*6)
	require.Empty(t, day("30 2 10 * *"))
	require.Equal(t, []string{"09T03:00-07"}, day("30 2 9 3 *"), "the only day of the year")
}

func TestClocksPutBack(t *testing.T) {
	t.Parallel()
	day := func(spec string) []string { // the one when Los Angeles has 01:00 to 01:59 twice
		return ticks(t, spec, "America/Los_Angeles", "2025-11-02T06:59:59Z", "2025-11-03T07:59:59Z")
	}
	require.Equal(t, []string{"02T01:30-07"}, day("30 1 * * *"))
	require.Equal(t, []string{"02T00:00-07", "02T01:00-07", "02T02:00-08"}, day("0 0-2 * * *"))
	require.Equal(t, []string{"02T01:00-07", "02T01:30-07", "02T01:00-08", "02T01:30-08"}, day("0,30 1 * * *"))
	hourly := day("0 * * * *")
	require.Len(t, hourly, 25)
	require.Equal(t, []string{"02T01:00-07", "02T01:00-08"}, hourly[1:3])
}

func TestOddTransitions(t *testing.T) {
	t.Parallel()
	// The midnight of a day that begins at one.
	require.Equal(t, []string{"08T00:00-05", "09T01:00-04", "10T00:00-04"},
		ticks(t, "0 0 * * *", "America/Havana", "2025-03-08T00:00:00Z", "2025-03-10T12:00:00Z"))
	// A day that is left out altogether.
	require.Equal(t, []string{"29T12:00-10", "31T00:00+14", "31T12:00+14"},
		ticks(t, "0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", "2011-12-31T12:00:00Z"))
	require.Equal(t, []string{"31T00:00+14"},
		ticks(t, "*/20 7-9 30 12 *", "Pacific/Apia", "2011-12-01T12:00:00Z", "2012-12-01T12:00:00Z"))
	// Half an hour.
	require.Equal(t, []string{"05T02:30+11", "06T02:15+11"},
		ticks(t, "15 2 * * *", "Australia/Lord_Howe", "2025-10-04T12:00:00Z", "2025-10-06T00:00:00Z"))
	require.Equal(t, []string{"06T01:45+11", "07T01:45+10"},
		ticks(t, "45 1 * * *", "Australia/Lord_Howe", "2025-04-05T12:00:00Z", "2025-04-06T23:00:00Z"))
}

func TestDates(t *testing.T) {
	t.Parallel()
	next := func(spec, from string) string {
		began := time.Now()
		at := parse(t, spec).Next(at(from), time.UTC)
		require.Less(t, time.Since(began), time.Second)
		return at.Format("2006-01-02 15:04")
	}
	require.Equal(t, "2028-02-29 00:00", next("0 0 29 2 *", "2025-01-01T00:00:00Z"))
	require.Equal(t, "2104-02-29 00:00", next("0 0 29 2 *", "2096-02-29T00:00:00Z"))
	require.Equal(t, "2025-03-31 00:00", next("0 0 31 * *", "2025-02-01T00:00:00Z"))
	require.Equal(t, "2025-02-03 00:00", next("0 0 31 2 MON", "2025-02-01T00:00:00Z"), "either matches")
	require.Equal(t, "2025-06-13 00:00", next("0 0 13 * FRI", "2025-06-12T00:00:00Z"))
	require.Equal(t, "2025-06-20 00:00", next("0 0 13 * FRI", "2025-06-13T00:00:00Z"))
	require.Equal(t, "2026-01-01 00:00", next("@yearly", "2025-01-01T00:00:00Z"))
	require.Equal(t, "1969-12-31 00:00", next("@daily", "1969-12-30T00:00:00.5Z"))
	require.Zero(t, cron.Schedule{}.Next(at("2025-01-01T00:00:00Z"), time.UTC))
}

// Beyond the table of a zone there is its rule, leap years or not.
func TestFarFuture(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"America/Los_Angeles", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Cairo"} {
		zone, err := cron.Zone(name)
		require.NoError(t, err)
		s := parse(t, "30 2 * * *")
		at := time.Date(2036, 1, 1, 0, 0, 0, 0, zone)
		for day := at; day.Year() < 2105; day = day.AddDate(0, 0, 1) {
			at = s.Next(at, zone)
			require.Equal(t, day.Format(time.DateOnly), at.Format(time.DateOnly), name)
		}
		began := time.Now()
		leap := parse(t, "0 0 29 2 *").Next(time.Date(2096, 3, 1, 0, 0, 0, 0, zone), zone)
		require.Equal(t, time.Date(2104, 2, 29, 0, 0, 0, 0, zone), leap)
		require.Less(t, time.Since(began), time.Second)
	}
}

func TestEvery(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"UTC", "Asia/Kathmandu"} {
		z, err := cron.Zone(zone)
		require.NoError(t, err)
		s := parse(t, "@every 7m")
		from := time.Unix(1_700_000_000, 1)
		next := s.Next(from, z)
		require.True(t, next.After(from) && next.Before(from.Add(7*time.Minute)))
		require.Zero(t, next.Unix()%420)
		require.Equal(t, 7*time.Minute, s.Next(next, z).Sub(next))
		require.Equal(t, z, next.Location())
	}
	require.Equal(t, time.Unix(-10, 0).UTC(), parse(t, "@every 10s").Next(time.Unix(-11, 0), time.UTC))
	require.Equal(t, time.Unix(0, 0).UTC(), parse(t, "@every 10s").Next(time.Unix(-10, 0), time.UTC))
}

func TestDue(t *testing.T) {
	t.Parallel()
	until := at("2025-06-01T12:00:00Z")
	for _, spec := range []string{"*/5 * * * *", "@every 5m"} {
		s := parse(t, spec)
		last, all := s.Due(until.Add(-3*time.Hour), until, time.UTC, 100)
		require.Equal(t, 36, all, spec)
		require.Len(t, last, 36)
		require.Equal(t, at("2025-06-01T09:05:00Z"), last[0])
		require.Equal(t, until, last[35])
		last, all = s.Due(until.Add(-3*time.Hour), until, time.UTC, 10)
		require.Equal(t, 36, all)
		require.Len(t, last, 10)
		require.Equal(t, until, last[9])
		require.Equal(t, until.Add(-45*time.Minute), last[0])
		last, all = s.Due(until, until.Add(time.Minute), time.UTC, 10)
		require.Empty(t, last)
		require.Zero(t, all)
	}
	began := time.Now()
	_, all := parse(t, "* * * * *").Due(time.Time{}, until, time.UTC, 1)
	require.Equal(t, 366*24*60, all, "a year")
	_, all = parse(t, "@every 1s").Due(time.Time{}, until, time.UTC, 1)
	require.Equal(t, 366*24*60*60, all)
	require.Less(t, time.Since(began), 5*time.Second)
}

func BenchmarkNext(b *testing.B) {
	zone, err := cron.Zone("America/Los_Angeles")
	if err != nil {
		b.Fatal(err)
	}
	for _, spec := range []string{"*/5 * * * *", "30 2 * * *", "0 0 29 2 *", "@every 1s"} {
		s, err := cron.Parse(spec)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(spec, func(b *testing.B) {
			next := at("2025-01-01T00:00:00Z")
			for b.Loop() {
				if next = s.Next(next, zone); next.Year() > 2100 {
					next = at("2025-01-01T00:00:00Z")
				}
			}
		})
	}
}
