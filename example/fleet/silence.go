package fleet

import "time"

// Silences finds where nothing was heard of one vehicle for too long, in
// positions that are settled and in the order of their time. The first of them
// only says when it was heard of before. A silence that lasts is none yet: a late
// position may still fall into it.
func Silences(positions []Position) []Silence {
	var found []Silence
	for i := 1; i < len(positions); i++ {
		before, now := positions[i-1], positions[i]
		if now.At.Sub(before.At) > OfflineLimit {
			found = append(found, silence(now.Vehicle, before.At, now.At))
		}
	}
	return found
}

// LastSilence is the one at the end of a trace: newest is the vehicle's last
// position, of is the last one of the whole fleet.
func LastSilence(vehicle string, newest, of time.Time) (Silence, bool) {
	if of.Sub(newest) <= OfflineLimit {
		return Silence{}, false
	}
	return silence(vehicle, newest, time.Time{}), true
}

func silence(vehicle string, since, until time.Time) Silence {
	return Silence{ID: factID("silence", vehicle, "", since), Vehicle: vehicle, Since: since, Until: until}
}
