package fleet

import "time"

// Segment finds the trips that ended for certain in the settled positions of
// one vehicle, given in the order of their time. All of them are before the
// watermark.
//
// It returns too the time after which it has to read again next time: up to it
// every position is accounted for. It is the zero time while that is none.
func Segment(positions []Position, watermark time.Time) (trips []Trip, after time.Time) {
	var open *openTrip
	end := func() {
		if trip, ok := open.trip(); ok {
			trips = append(trips, trip)
		}
		open = nil
	}
	for i, p := range positions {
		if open != nil && p.At.Sub(positions[i-1].At) > GapLimit {
			end()
		}
		switch {
		case open == nil && p.moving():
			open = &openTrip{track: []Position{p}}
			if i > 0 {
				after = positions[i-1].At
			}
		case open == nil:
		case p.moving():
			open.move(p)
		default:
			if open.stand(p) {
				end()
			}
		}
		if open == nil {
			after = p.At
		}
	}
	if open != nil {
		last := positions[len(positions)-1].At
		if watermark.Sub(last) > GapLimit {
			end()
			after = last
		}
	}
	return trips, after
}

// openTrip is a trip whose end is not known yet.
type openTrip struct {
	track    []Position // up to the last moving position
	standing []Position // since then
}

func (o *openTrip) move(p Position) {
	o.track = append(append(o.track, o.standing...), p)
	o.standing = o.standing[:0]
}

// stand adds a position at rest and says whether the stop ends the trip.
func (o *openTrip) stand(p Position) bool {
	o.standing = append(o.standing, p)
	return p.At.Sub(o.standing[0].At) >= StopLimit
}

// trip is what the track adds up to, if that is long enough for a trip.
func (o *openTrip) trip() (Trip, bool) {
	first, last := o.track[0], o.track[len(o.track)-1]
	t := Trip{
		ID:      factID("trip", first.Vehicle, "", first.At),
		Vehicle: first.Vehicle, StartedAt: first.At, EndedAt: last.At, Positions: len(o.track),
	}
	for i, p := range o.track {
		t.MaxSpeedKMH = max(t.MaxSpeedKMH, p.SpeedKMH)
		if i > 0 {
			t.DistanceM += Distance(o.track[i-1].Lat, o.track[i-1].Lon, p.Lat, p.Lon)
		}
	}
	return t, t.DistanceM >= MinTripMeters
}
