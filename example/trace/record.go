package trace

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawlgo/pawl/example/fleet"
)

// Plan says what [Record] records.
type Plan struct {
	Seed     uint64
	Vehicles int
	Hours    float64
}

// Shipped is the plan of the trace that comes with the example. After a change
// here or in Record, `go test ./trace -record` writes it anew.
var Shipped = Plan{Seed: 7, Vehicles: 12, Hours: 4}

// The day on which every trace starts.
var start = time.Date(2026, 3, 2, 6, 0, 0, 0, time.UTC)

// The box that the vehicles stay in: a port town and its surroundings.
const (
	south, north = 53.515, 53.645
	west, east   = 9.900, 10.060
)

// Record drives a fleet around a town and returns what arrives, in the order in
// which it does. The same plan gives the same trace.
//
// Vehicles drive, wait at lights, stop to deliver, lose reception, cross
// geofences on their way, buffer some positions and send them after later ones,
// send a few far too late, and now and then one twice.
func Record(plan Plan) []fleet.Position {
	var sent []arrival
	for i := range plan.Vehicles {
		v := &vehicle{
			name: fmt.Sprintf("van-%02d", i+1),
			rand: rand.New(rand.NewPCG(plan.Seed, uint64(i))),
			now:  start,
			end:  start.Add(time.Duration(plan.Hours * float64(time.Hour))),
		}
		v.now = v.now.Add(time.Duration(v.rand.IntN(600)) * time.Second)
		v.lat, v.lon = v.anywhere()
		sent = append(sent, v.day()...)
	}
	slices.SortStableFunc(sent, func(a, b arrival) int {
		return cmp.Or(a.arrived.Compare(b.arrived), cmp.Compare(a.position.Vehicle, b.position.Vehicle))
	})
	positions := make([]fleet.Position, len(sent))
	for i := range sent {
		positions[i] = sent[i].position
	}
	return positions
}

type arrival struct {
	arrived  time.Time
	position fleet.Position
}

type vehicle struct {
	name     string
	rand     *rand.Rand
	now, end time.Time
	lat, lon float64
	sent     []arrival
}

// day is a shift: drive somewhere, stay a while, go on.
func (v *vehicle) day() []arrival {
	for v.now.Before(v.end) {
		v.drive()
		v.stay(v.between(330, 600))
	}
	return v.sent
}

// drive goes to a place some minutes away, with waits at lights on the way and
// seldom a loss of reception.
func (v *vehicle) drive() {
	lat, lon := v.anywhere()
	for range 26 {
		left := fleet.Distance(v.lat, v.lon, lat, lon)
		if left < 200 || v.now.After(v.end) {
			return
		}
		speed := 25 + 45*v.rand.Float64()
		step := v.between(20, 30)
		share := min(1, speed/3.6*step.Seconds()/left)
		v.lat += (lat-v.lat)*share + 0.0002*v.rand.NormFloat64()
		v.lon += (lon-v.lon)*share + 0.0003*v.rand.NormFloat64()
		v.now = v.now.Add(step)
		v.send(speed)
		switch luck := v.rand.Float64(); {
		case luck < 0.05:
			v.stay(v.between(30, 200))
		case luck < 0.06:
			v.now = v.now.Add(v.between(660, 1200))
		}
	}
}

// stay stands for a while.
func (v *vehicle) stay(d time.Duration) {
	until := v.now.Add(d)
	for {
		step := v.between(40, 60)
		if v.now.Add(step).After(until) {
			v.now = until
			return
		}
		v.now = v.now.Add(step)
		v.send(2 * v.rand.Float64())
	}
}

func (v *vehicle) send(speed float64) {
	p := fleet.Position{
		Vehicle: v.name, At: v.now,
		Lat: round(v.lat, 5), Lon: round(v.lon, 5), SpeedKMH: round(speed, 1),
	}
	arrived := v.now
	switch luck := v.rand.Float64(); {
	case luck < 0.04: // after some later ones
		arrived = arrived.Add(v.between(40, 300))
	case luck < 0.042: // after so many that it is refused
		arrived = arrived.Add(v.between(900, 1500))
	case luck < 0.046: // twice
		v.sent = append(v.sent, arrival{arrived.Add(v.between(1, 30)), p})
	}
	v.sent = append(v.sent, arrival{arrived, p})
}

func (v *vehicle) between(lo, hi int) time.Duration {
	return time.Duration(lo+v.rand.IntN(hi-lo)) * time.Second
}

func (v *vehicle) anywhere() (lat, lon float64) {
	return south + (north-south)*v.rand.Float64(), west + (east-west)*v.rand.Float64()
}

func round(x float64, digits int) float64 {
	scale := math.Pow(10, float64(digits))
	return math.Round(x*scale) / scale
}
