package gen

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/diag"
	"github.com/pawlgo/pawl/internal/gen/render"
)

// gone returns which packages of strangers were removed from the module of u. It
// adds an error for each other that cannot be imported: whether a module is
// required, or can be downloaded now, must not change what is generated.
func (u *unit) gone(ctx context.Context, strangers []render.Stranger) (map[string]bool, error) {
	if len(strangers) == 0 {
		return nil, nil
	}
	var paths []string
	for _, s := range strangers {
		paths = append(paths, s.Path)
	}
	missing, err := u.pkgs.Missing(ctx, u.pkg.Dir, paths)
	if err != nil {
		return nil, err
	}
	gone := map[string]bool{}
	for _, s := range strangers {
		said, isMissing := missing[s.Path]
		switch {
		case !isMissing:
		case u.removed(s.Path):
			gone[s.Path] = true
		default:
			u.errorf(diag.Lock)(s.Task.NamePos, "version %d of %s has a type of the package %s, which cannot be imported: %s\nmake it available again, or, if no job of version %d is left, run\ntaskgen retire %s %d",
				s.Version, s.Task.Policy.Kind, s.Path, strings.TrimSpace(said), s.Version, s.Task.Policy.Kind, s.Version)
		}
	}
	return gone, nil
}

// removed reports whether a package would be in the module of u and has no file
// there.
func (u *unit) removed(path string) bool {
	if u.pkg.Module == nil || u.pkg.Module.Dir == "" {
		return false
	}
	rel, ok := strings.CutPrefix(path, u.pkg.Module.Path+"/")
	if path == u.pkg.Module.Path {
		rel, ok = ".", true
	}
	if !ok {
		return false
	}
	entries, err := os.ReadDir(filepath.Join(u.pkg.Module.Dir, filepath.FromSlash(rel)))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") {
			return false
		}
	}
	return true
}
