package check

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/reference"
)

// oneReportEach: each committed trip has exactly one report, as a row and as a
// file, and the file says what the reference says.
func oneReportEach(f *Facts) Verdict {
	v := Verdict{Name: "reports", Says: fmt.Sprintf("each of the %d committed trips has exactly one report", len(f.Trips))}
	rows := map[uuid.UUID][]Report{}
	for _, r := range f.Reports {
		rows[r.TripID] = append(rows[r.TripID], r)
	}
	files := map[string]bool{}
	for _, t := range f.Trips {
		name := fleet.ReportFile(t)
		files[name] = true
		switch of := rows[t.ID]; {
		case len(of) != 1:
			v.problem("the trip %s of %s has %d reports", t.ID, t.Vehicle, len(of))
		case of[0].File != name:
			v.problem("the report of the trip %s is %s, not %s", t.ID, of[0].File, name)
		default:
			content, ok := f.Files[name]
			sum := sha256.Sum256(content)
			switch {
			case !ok:
				v.problem("the file %s is missing", name)
			case !bytes.Equal(sum[:], of[0].SHA256):
				v.problem("the file %s is not the one that was recorded", name)
			case string(content) != reference.Report(t, t.ID.String()):
				v.problem("the file %s does not say what its trip was", name)
			}
		}
		delete(rows, t.ID)
	}
	for id := range rows {
		v.problem("there is a report of the trip %s, which was not committed", id)
	}
	for name := range f.Files {
		if !files[name] && !strings.HasSuffix(name, ".csv") {
			v.problem("the file %s belongs to no trip", name)
		}
	}
	return v
}

// oneExportEach: each vehicle has an export with all its trips.
func oneExportEach(f *Facts) Verdict {
	vehicles, trips := map[string]int{}, map[string][]fleet.Trip{}
	for _, t := range f.Trips {
		trips[t.Vehicle] = append(trips[t.Vehicle], t)
	}
	for name := range f.Reference.Vehicles {
		vehicles[name] = 0
	}
	v := Verdict{Name: "exports", Says: fmt.Sprintf("each of the %d vehicles has an export with all its trips", len(vehicles))}
	for _, e := range f.Exports {
		if _, ok := vehicles[e.Vehicle]; !ok {
			v.problem("there is an export of %s, which is not in the trace", e.Vehicle)
			continue
		}
		vehicles[e.Vehicle]++
		content, ok := f.Files[e.File]
		lines := bytes.Count(content, []byte("\n")) - 1
		switch {
		case !ok:
			v.problem("the file %s is missing", e.File)
		case e.Trips != len(trips[e.Vehicle]) || lines != len(trips[e.Vehicle]):
			v.problem("the export of %s has %d trips, recorded as %d, of %d", e.Vehicle, lines, e.Trips, len(trips[e.Vehicle]))
		}
		for _, t := range trips[e.Vehicle] {
			if !bytes.Contains(content, []byte(t.ID.String())) {
				v.problem("the export of %s lacks the trip %s", e.Vehicle, t.ID)
			}
		}
	}
	for name, n := range vehicles {
		if n != 1 {
			v.problem("%s has %d exports", name, n)
		}
	}
	return v
}
