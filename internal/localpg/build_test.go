//go:build linux || darwin

package localpg

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// serveBuild serves a repository on loopback that has the binaries of a
// directory for every system, and counts the builds it has given out.
func serveBuild(t *testing.T, bin string, jars *atomic.Int32) (url string) {
	t.Helper()
	jar := packJar(t, packXZ(packTar(t, bin)))
	sum := sha256.Sum256(jar)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, ".jar"):
			jars.Add(1)
			_, _ = w.Write(jar)
		case strings.HasSuffix(r.URL.Path, ".jar.sha256"):
			_, _ = io.WriteString(w, hex.EncodeToString(sum[:]))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// packTar packs the programs of an installation and the files beside them.
func packTar(t *testing.T, bin string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(path, name string) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size()}))
		_, err = w.Write(text)
		require.NoError(t, err)
	}
	for _, tool := range []string{"initdb", "postgres", "pg_ctl"} {
		if _, err := os.Stat(filepath.Join(bin, tool)); err == nil {
			add(filepath.Join(bin, tool), "bin/"+tool)
		}
	}
	for _, part := range []string{"lib", "share"} {
		root := filepath.Join(filepath.Dir(bin), part)
		if _, err := os.Stat(root); err != nil {
			continue // a distribution may have it elsewhere, where it is found
		}
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				if d.Name() == "bitcode" {
					return fs.SkipDir // large, and only for the JIT compiler
				}
				return err
			}
			rel, err := filepath.Rel(filepath.Dir(bin), path)
			if err == nil {
				add(path, rel)
			}
			return err
		}))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func packJar(t *testing.T, txz []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	f, err := w.CreateHeader(&zip.FileHeader{Name: "postgres.txz", Method: zip.Store})
	require.NoError(t, err)
	_, err = f.Write(txz)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// packXZ wraps data into the xz format without compressing it: one block of
// LZMA2 chunks that are stored as they are, without a check of the contents.
func packXZ(data []byte) []byte {
	le := binary.LittleEndian
	withCRC := func(b []byte) []byte { return le.AppendUint32(b, crc32.ChecksumIEEE(b)) }
	pad := func(b []byte) []byte {
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		return b
	}
	flags := []byte{0, 0} // no check

	out := []byte{0xFD, '7', 'z', 'X', 'Z', 0}
	out = append(out, withCRC(flags[:2:2])...)

	// Block header: its size in words less one, one filter, LZMA2 (0x21) with
	// one property, a dictionary of 64 KiB.
	header := withCRC([]byte{2, 0, 0x21, 1, 8, 0, 0, 0})
	out = append(out, header...)
	start := len(out)
	control := byte(1) // a stored chunk that resets the dictionary
	for rest := data; len(rest) > 0; {
		n := min(len(rest), 1<<16)
		out = append(out, control)
		out = binary.BigEndian.AppendUint16(out, uint16(n-1))
		out = append(out, rest[:n]...)
		rest, control = rest[n:], 2
	}
	out = append(out, 0)
	unpadded := len(header) + len(out) - start
	out = pad(out)

	index := []byte{0, 1} // one record
	index = binary.AppendUvarint(index, uint64(unpadded))
	index = binary.AppendUvarint(index, uint64(len(data)))
	index = withCRC(pad(index))
	out = append(out, index...)

	footer := append(le.AppendUint32(nil, uint32(len(index)/4-1)), flags...)
	out = le.AppendUint32(out, crc32.ChecksumIEEE(footer))
	out = append(out, footer...)
	return append(out, 'Y', 'Z')
}

// copyProgram copies the test binary to where every account can run it.
func copyProgram(t *testing.T, dir string) string {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	text, err := os.ReadFile(program)
	require.NoError(t, err)
	path := filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(path, text, 0o755))
	return path
}
