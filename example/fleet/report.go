package fleet

import (
	"fmt"
	"time"
)

// Report renders the report of a trip. The same trip gives the same bytes, so
// that a repeated job writes the file that is there already.
func Report(t Trip) []byte {
	took := t.EndedAt.Sub(t.StartedAt)
	average := 0.0
	if took > 0 {
		average = t.DistanceM / 1000 / took.Hours()
	}
	return fmt.Appendf(nil, `# Trip of %s

- trip: %s
- from: %s
- to: %s
- duration: %s
- distance: %.2f km
- average speed: %.1f km/h
- highest speed: %.1f km/h
- positions: %d
`,
		t.Vehicle, t.ID, t.StartedAt.UTC().Format(time.RFC3339), t.EndedAt.UTC().Format(time.RFC3339), took.Round(time.Second),
		t.DistanceM/1000, average, t.MaxSpeedKMH, t.Positions)
}

// ReportFile is the name of a trip's report.
func ReportFile(t Trip) string { return "trip-" + t.ID.String() + ".md" }
