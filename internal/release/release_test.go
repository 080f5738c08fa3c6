// Package release_test keeps the modules of the repository fit to be released
// together, as docs/releasing.md describes it.
package release_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	pawl    = "github.com/pawlgo/pawl"
	taskctl = "cmd/taskctl"
	top     = "../.."
)

// modules are the go.mod files of the repository by their directories.
func modules(t *testing.T) map[string]*modfile.File {
	t.Helper()
	all := map[string]*modfile.File{}
	require.NoError(t, filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != top && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.Name() != "go.mod":
			return nil
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(top, filepath.Dir(name))
		if err != nil {
			return err
		}
		all[filepath.ToSlash(dir)], err = modfile.Parse(name, raw, nil)
		return err
	}))
	require.Contains(t, all, taskctl)
	return all
}

// The modules agree about their versions of Go and of what they require, and each
// takes Pawl from beside it. That is so on every commit but the tagged one of
// taskctl, which requires a version of Pawl in place of that.
func TestModulesAgree(t *testing.T) {
	t.Parallel()
	all := modules(t)
	root := all["."]
	raw, err := os.ReadFile(filepath.Join(top, "go.work"))
	require.NoError(t, err)
	work, err := modfile.ParseWork("go.work", raw, nil)
	require.NoError(t, err)
	var used []string
	for _, u := range work.Use {
		used = append(used, path.Clean(u.Path))
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(all)), used, "go.work uses every module, and no other")
	require.Equal(t, root.Go.Version, work.Go.Version)

	versions := map[string]string{} // of what some module requires itself
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		m := all[dir]
		require.Equal(t, path.Join(pawl, dir), m.Module.Mod.Path)
		require.Equal(t, root.Go.Version, m.Go.Version, dir)
		own := ""
		for _, r := range m.Require {
			if r.Mod.Path == pawl {
				own = r.Mod.Version
				continue
			}
			if r.Indirect {
				continue
			}
			if known, ok := versions[r.Mod.Path]; ok {
				require.Equal(t, known, r.Mod.Version, "%s in %s: run go get %s@%s there", r.Mod.Path, dir, r.Mod.Path, known)
			}
			versions[r.Mod.Path] = r.Mod.Version
		}
		if dir == "." {
			require.Empty(t, m.Replace, "nobody could install what a module replaces")
			continue
		}
		require.NotEmpty(t, own, "%s requires Pawl", dir)
		if dir == taskctl && len(m.Replace) == 0 {
			require.NotEqual(t, "v0.0.0", own, "what is released requires a version that there is")
			continue
		}
		require.Len(t, m.Replace, 1, dir)
		require.Equal(t, "v0.0.0", own, dir)
		require.Equal(t, pawl, m.Replace[0].Old.Path, dir)
		require.Equal(t, ".", path.Join(dir, m.Replace[0].New.Path), "%s takes Pawl from beside it", dir)
	}
}

// What the tags would publish can be installed.
func TestRehearsal(t *testing.T) {
	t.Parallel()
	const version = "v1.999.0"
	proxy := t.TempDir()
	publish(t, proxy, ".", version, nil)
	publish(t, proxy, taskctl, version, func(m *modfile.File) {
		if len(m.Replace) > 0 {
			require.NoError(t, m.DropReplace(pawl, ""))
		}
		require.NoError(t, m.AddRequire(pawl, version))
	})
	cached, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	for _, of := range []string{pawl + "/cmd/taskgen", pawl + "/cmd/taskctl"} {
		// It finds and loads all packages, and does not compile them.
		cmd := exec.CommandContext(t.Context(), "go", "install", "-n", of+"@"+version)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+t.TempDir(), "GOSUMDB=off", "GOTOOLCHAIN=local",
			"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+strings.TrimSpace(string(cached))+"/cache/download")
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", of, last(output))
		require.Contains(t, string(output), path.Base(of))
	}
}

// publish puts a module into a proxy, as a tag would.
func publish(t *testing.T, proxy, dir, version string, change func(*modfile.File)) {
	t.Helper()
	m := modules(t)[dir]
	source := filepath.Join(top, dir)
	if change != nil {
		copied := t.TempDir()
		require.NoError(t, os.CopyFS(copied, os.DirFS(source)))
		change(m)
		m.Cleanup()
		text, err := m.Format()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(copied, "go.mod"), text, 0o644))
		source = copied
	}
	at := filepath.Join(proxy, filepath.FromSlash(m.Module.Mod.Path), "@v")
	require.NoError(t, os.MkdirAll(at, 0o755))
	var archive bytes.Buffer
	require.NoError(t, zip.CreateFromDir(&archive, module.Version{Path: m.Module.Mod.Path, Version: version}, source))
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	require.NoError(t, err)
	info, err := json.Marshal(map[string]string{"Version": version, "Time": "2026-01-01T00:00:00Z"})
	require.NoError(t, err)
	for suffix, content := range map[string][]byte{".zip": archive.Bytes(), ".mod": mod, ".info": info} {
		require.NoError(t, os.WriteFile(filepath.Join(at, version+suffix), content, 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(at, "list"), fmt.Appendln(nil, version), 0o644))
}

// last is the end of what a command has printed.
func last(output []byte) string { return string(output[max(0, len(output)-2000):]) }
