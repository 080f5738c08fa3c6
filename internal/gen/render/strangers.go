package render

import (
	"maps"
	"slices"

	"github.com/dave/jennifer/jen"
)

// Stranger is a package that an older version's types name, and that no payload
// leads to any more.
type Stranger struct {
	Task    *Task
	Version int
	Path    string
}

// Strangers returns the packages that the generated file would import without
// anything of the user's to show that they are there.
func Strangers(p *Package) []Stranger {
	var all []Stranger
	packages := packagesOf(p.Tasks)
	for _, t := range p.Tasks {
		for _, v := range t.older() {
			s := p.speller()
			frozen(jen.NewFilePathName(p.Path, p.Name), t, v, 0, s, packages)
			for _, path := range slices.Sorted(maps.Keys(s.named)) {
				if packages[path] == nil && path != jsonPath {
					all = append(all, Stranger{t, v.Number, path})
				}
			}
		}
	}
	return all
}
