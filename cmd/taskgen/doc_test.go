package main

import (
	"os"
	"testing"

	"github.com/pawlgo/pawl/internal/gen/directive"
	"github.com/stretchr/testify/require"
)

// The documentation names every directive with its keys.
func TestDocumentationIsComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, s := range directive.Specs() {
		require.Contains(t, string(text), "\n//	//task:"+s.Name+" ")
		for _, key := range s.Keys {
			require.Contains(t, string(text), key+"=")
		}
	}
}
