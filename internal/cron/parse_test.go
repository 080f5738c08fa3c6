package cron_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/cron"
)

func TestParse(t *testing.T) {
	t.Parallel()
	// Equal expressions: they tick at the same instants.
	for a, b := range map[string]string{
		"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 7",
		"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 JAN *",
		"  5\t4 * *  sun ": "5 4 * * 0", "0 0 * * 5-7": "0 0 * * 0,5,6", "0 0 * * FRI-SUN": "0 0 * * fri,sat,sun",
		"0 0 * * sun-tue": "0 0 * * 0,1,2", "*/20 8-18/5 * jan-mar,12 *": "0,20,40 8,13,18 * 1,2,3,DEC *",
		"0 0 */1 * 1": "0 0 * * 1", "0 0 * * 7,1": "0 0 * * 0-1", "0 0 * * 1-7/3": "0 0 * * 1,4,7",
		"10-20/10 * * * *": "10,20 * * * *", "0 0 1-31 * 1": "0 0 * * 0-6", "1,1,1 1 1 1 *": "1 1 1 1 *",
	} {
		one, two := parse(t, a), parse(t, b)
		for x, y, n := at("2024-01-31T12:34:56Z"), at("2024-01-31T12:34:56Z"), 0; n < 300; n++ {
			x, y = one.Next(x, time.UTC), two.Next(y, time.UTC)
			require.Equal(t, y, x, "%q and %q", a, b)
		}
		require.Equal(t, a, one.String())
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec    string
		offset  int
		message string
	}{
		{"", 0, "it has 0 of five fields: minute, hour, day of month, month, day of week"},
		{"0 0 * *", 7, "it has 4 of five fields: minute, hour, day of month, month, day of week"},
		{"0 0 0 * * *", 10, "it has six fields, of at most five: there are no seconds and no years; write @every DURATION for less than a minute"},
		{"1 2 3 4 5 6 7", 10, "it has 7 fields, of at most five"},
		{"TZ=UTC 0 0 * * *", 0, "an expression has no zone: that is said beside it"},
		{"60 0 * * *", 0, "60 is no minute: that is a number from 0 to 59"},
		{"0 24 * * *", 2, "24 is no hour: that is a number from 0 to 23"},
		{"0 0 0 * *", 4, "0 is no day of month: that is a number from 1 to 31"},
		{"0 0 1,32 * *", 6, "32 is no day of month: that is a number from 1 to 31"},
		{"0 0 * 13 *", 6, "13 is no month: that is a number from 1 to 12"},
		{"0 0 * JUNE *", 6, `"JUNE" is no month: use a number from 1 to 12, or a name from JAN to DEC`},
		{"0 0 * * 8", 8, "8 is no day of week: that is a number from 0 to 7"},
		{"0 0 L * *", 4, `"L" is no day of month: use a number from 1 to 31, *, a list, a range or a step`},
		{"0 0 ? * *", 4, `"?" is no day of month: use a number from 1 to 31, *, a list, a range or a step`},
		{"0 -1 * * *", 2, `"" is no hour: use a number from 0 to 23, *, a list, a range or a step`},
		{"0 99999999999999999999 * * *", 2, "99999999999999999999 is no hour: that is a number from 0 to 23"},
		{"0 22-2 * * *", 2, "the range 22-2 runs backwards: write two, as in 22-23,0-2"},
		{"0,,5 * * * *", 2, "the minute has an empty place in its list: write A,B"},
		{"5/15 * * * *", 0, "a step goes with a range: write 5-59/15 or */15"},
		{"*/0 * * * *", 2, `"0" is no step: use a number from 1 to 59`},
		{"*/x * * * *", 2, `"x" is no step: use a number from 1 to 59`},
		{"*/ * * * *", 2, `"" is no step: use a number from 1 to 59`},
		{"*/60 * * * *", 2, "the step 60 is too long for *: in the minute it leads nowhere"},
		{"0 9-17/9 * * *", 7, "the step 9 is too long for 9-17: in the hour it leads nowhere"},
		{"0 0 31 2 *", 4, "it never runs: no such month has such a day"},
		{"0 0 31 4,6 *", 4, "it never runs: no such month has such a day"},
		{"0 0 30-31 FEB *", 4, "it never runs: no such month has such a day"},
		{"@dayly", 0, "there is no @dayly; there are @every DURATION, @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually"},
		{"@reboot", 0, "there is no @reboot; there are @every DURATION, @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually"},
		{"@daily 5", 7, "@daily stands alone"},
		{"@every", 0, "write @every DURATION, as in @every 90s"},
		{"@every 5", 7, `"5" is no duration: write one like 30s, 15m or 1h30m`},
		{"@every 0s", 7, "0s is no interval: use whole seconds, one or more"},
		{"@every -1h", 7, "-1h is no interval: use whole seconds, one or more"},
		{"@every 1500ms", 7, "1500ms is no interval: use whole seconds, one or more"},
	} {
		began := time.Now()
		_, err := cron.Parse(c.spec)
		require.Less(t, time.Since(began), time.Second, c.spec)
		syntax, ok := errors.AsType[*cron.SyntaxError](err)
		require.True(t, ok, "%q: %v", c.spec, err)
		require.Equal(t, cron.SyntaxError{Spec: c.spec, Offset: c.offset, Message: c.message}, *syntax)
	}
}

func TestZone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Local", "localtime", "posixrules", "Mars/Base", "../UTC", "CRON"} {
		_, err := cron.Zone(name)
		require.ErrorContains(t, err, `"`+name+`"`)
	}
	zone, err := cron.Zone("Europe/Lisbon")
	require.NoError(t, err)
	require.Equal(t, "Europe/Lisbon", zone.String())
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"*/5 0-7,22 1,31 JAN-MAR/2 SUN-SAT", "@every 90s", "@weekly", "0 0 29 2 *", "-,/ * * * *"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := cron.Parse(spec)
		if syntax, ok := errors.AsType[*cron.SyntaxError](err); ok {
			require.LessOrEqual(t, syntax.Offset, len(spec))
			require.GreaterOrEqual(t, syntax.Offset, 0)
			return
		}
		require.NoError(t, err)
		from := at("2023-03-01T00:00:00Z")
		next := s.Next(from, time.UTC)
		require.True(t, next.After(from))
	})
}

func parse(t *testing.T, spec string) cron.Schedule {
	t.Helper()
	s, err := cron.Parse(spec)
	require.NoError(t, err)
	return s
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}
