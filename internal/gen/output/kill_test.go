package output

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// writeForever names the directory in which a process of the test writes files
// until it is killed.
const writeForever = "PAWL_OUTPUT_WRITE_FOREVER"

func TestMain(m *testing.M) {
	dir := os.Getenv(writeForever)
	if dir == "" {
		os.Exit(m.Run())
	}
	for n := byte(0); ; n++ {
		if err := Apply(context.Background(), versions(dir, n)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if n == 1 {
			fmt.Println("begun")
		}
	}
}

const killedFiles = 8

// versions are files that are all of one byte.
func versions(dir string, n byte) []File {
	files := make([]File, killedFiles)
	for i := range files {
		files[i] = File{Path: filepath.Join(dir, fmt.Sprintf("f%d.go", i)), Content: bytes.Repeat([]byte{n}, 200_000)}
	}
	return files
}

// Wherever a run is killed, each file is whole, and what else is left has a name
// that the go command takes no notice of.
func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for n := range 20 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), writeForever+"="+dir)
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = bufio.NewReader(stdout).ReadString('\n')
		require.NoError(t, err)
		// No signal says in which step the process is: that is the point.
		timer := time.NewTimer(time.Duration(rand.IntN(20_000)) * time.Microsecond)
		<-timer.C
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())

		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		visible := 0
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				continue
			}
			visible++
			content, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			require.Len(t, content, 200_000, "kill %d, %s", n, e.Name())
			require.Equal(t, bytes.Repeat(content[:1], len(content)), content, "kill %d, %s", n, e.Name())
		}
		require.Equal(t, killedFiles, visible)
	}
}
