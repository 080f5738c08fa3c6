//go:build full

package cron_test

import (
	"archive/zip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every zone of the Go distribution, over ten years.
func TestOracleEveryZone(t *testing.T) {
	t.Parallel()
	names := zoneNames(t)
	require.Greater(t, len(names), 500)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkTransitions(t, name, year(2016), year(2027))
		})
	}
}

func zoneNames(t *testing.T) (names []string) {
	t.Helper()
	root := os.Getenv("GOROOT")
	if root == "" {
		root = runtime.GOROOT()
	}
	archive, err := zip.OpenReader(filepath.Join(root, "lib", "time", "zoneinfo.zip"))
	require.NoError(t, err)
	defer archive.Close()
	for _, f := range archive.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	return names
}
