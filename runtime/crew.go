package runtime

import "time"

// crewRest is how long a goroutine of a crew waits for more before it ends.
const crewRest = time.Second

// crew is goroutines that run attempts, one each at a time. They are kept for
// the next one, since their stacks have grown to what a handler needs: that
// growth is a good part of what a short job costs. There are as many as there
// have been attempts at once within the last second.
type crew struct {
	work    chan func()
	stopped <-chan struct{}
}

func newCrew(stopped <-chan struct{}) *crew {
	return &crew{work: make(chan func()), stopped: stopped}
}

// do runs f in a goroutine of the crew. It does not wait.
func (c *crew) do(f func()) {
	select {
	case c.work <- f:
	default:
		go c.run(f)
	}
}

// run runs f and what comes after it. Where f ends the goroutine, that was its
// last.
func (c *crew) run(f func()) {
	rest := time.NewTimer(crewRest)
	defer rest.Stop()
	for {
		f()
		rest.Reset(crewRest)
		select {
		case f = <-c.work:
		case <-rest.C:
			return
		case <-c.stopped:
			return
		}
	}
}
