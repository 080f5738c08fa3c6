package fleet

// Crossings finds where one vehicle changed sides, in positions that are
// settled and in the order of their time. The first of them only says where the
// vehicle was before.
func Crossings(fences []Geofence, positions []Position) []Crossing {
	var found []Crossing
	for i := 1; i < len(positions); i++ {
		before, now := positions[i-1], positions[i]
		for _, fence := range fences {
			inside := fence.Contains(now)
			if inside == fence.Contains(before) {
				continue
			}
			found = append(found, Crossing{
				ID:      factID("crossing", now.Vehicle, fence.Name, now.At),
				Vehicle: now.Vehicle, Fence: fence.Name, Entered: inside, At: now.At,
			})
		}
	}
	return found
}
