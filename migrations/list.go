package migrations

// Info is one migration of this binary.
type Info struct {
	Number int
	Name   string
}

// All returns the migrations of this binary, in order.
func All() []Info {
	all := make([]Info, len(migrations))
	for i, m := range migrations {
		all[i] = Info{Number: m.number, Name: m.name}
	}
	return all
}
