package diff

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"os"

	"github.com/stretchr/testify/require"
)

func TestUnified(t *testing.T) {
	t.Parallel()
	old := "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\n"
	diff, line := Unified("old", "new", old, strings.NewReplacer("b\n", "", "d\n", "D\nDD\n", "n\n", "n").Replace(old))
	require.Equal(t, 2, line)
	require.Equal(t, `--- old
+++ new
@@ -1,7 +1,7 @@
 a
-b
 c
-d
+D
+DD
 e
 f
 g
@@ -11,4 +11,4 @@
 k
 l
 m
-n
+n
\ No newline at end of file
`, diff)

	diff, line = Unified("/dev/null", "new", "", "a\nb\n")
	require.Equal(t, "--- /dev/null\n+++ new\n@@ -0,0 +1,2 @@\n+a\n+b\n", diff)
	require.Equal(t, 1, line)
	diff, _ = Unified("old", "/dev/null", "a\n", "")
	require.Equal(t, "--- old\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", diff)
	diff, line = Unified("old", "new", old, old)
	require.Empty(t, diff)
	require.Zero(t, line)
}

// What is written has to mean to patch what it means to us.
func TestAgainstGit(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var old, new strings.Builder
		for n := range 40 {
			if r.IntN(4) > 0 {
				fmt.Fprintf(&old, "%d\n", n%7)
			}
			if r.IntN(4) > 0 {
				fmt.Fprintf(&new, "%d\n", n%7)
			}
		}
		dir := t.TempDir()
		diff, _ := Unified("a/f", "b/f", old.String(), new.String())
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte(old.String()), 0o666))
		cmd := exec.CommandContext(t.Context(), "git", "apply", "--unidiff-zero", "-")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(diff)
		out, err := cmd.CombinedOutput()
		if old.String() != new.String() {
			require.NoError(t, err, "%s\n%s", out, diff)
		}
		got, err := os.ReadFile(filepath.Join(dir, "f"))
		require.NoError(t, err)
		require.Equal(t, new.String(), string(got))
	}
}

func TestHugeTexts(t *testing.T) {
	t.Parallel()
	old := strings.Repeat("a\n", 5000) + "b\n"
	diff, _ := Unified("old", "new", "x\n"+old+"y\n", "z\n"+old+"w\n")
	require.True(t, strings.HasPrefix(diff, "--- old\n+++ new\n@@ -1,5003 +1,5003 @@\n-x\n-a\n"))
}
