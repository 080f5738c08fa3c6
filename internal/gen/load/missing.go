package load

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Missing returns which of the packages of paths a file in dir cannot import, and
// what the go command says about each.
func (p *Packages) Missing(ctx context.Context, dir string, paths []string) (map[string]string, error) {
	found := map[string]bool{}
	packages.Visit(p.Roots, nil, func(pkg *packages.Package) {
		found[pkg.PkgPath] = pkg.Name != "" && len(pkg.Errors) == 0
	})
	var rest []string
	for _, path := range paths {
		if !found[path] {
			rest = append(rest, path)
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	pkgs, err := packages.Load(&packages.Config{Context: ctx, Dir: dir, Mode: packages.NeedName}, rest...)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", strings.Join(rest, " "), err)
	}
	missing := map[string]string{}
	for _, pkg := range pkgs {
		if pkg.Name == "" {
			missing[pkg.PkgPath] = "there is no such package"
			if len(pkg.Errors) > 0 {
				missing[pkg.PkgPath] = pkg.Errors[0].Msg
			}
		}
	}
	return missing, nil
}
