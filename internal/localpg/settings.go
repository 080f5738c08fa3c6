//go:build linux || darwin

package localpg

import "maps"

// commonSettings are those of every server. The data may be lost with the machine, so
// nothing waits for the disk; what a client can see of a commit stays as usual.
// Without Unix sockets no path can be too long for one, and with shared memory
// in the data directory a killed server leaves none behind.
var commonSettings = map[string]string{
	"listen_addresses":           "127.0.0.1",
	"unix_socket_directories":    "",
	"dynamic_shared_memory_type": "mmap",
	"max_connections":            "300",
	"fsync":                      "off",
	"full_page_writes":           "off",
	"checkpoint_timeout":         "1h",
	"jit":                        "off",
	"timezone":                   "UTC",
	"log_timezone":               "UTC",
	"logging_collector":          "off",
}

// settings returns all settings of the server that is wanted.
func (o Options) settings() map[string]string {
	all := maps.Clone(commonSettings)
	maps.Copy(all, o.Settings)
	return all
}
