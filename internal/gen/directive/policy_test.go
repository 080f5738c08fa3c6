package directive

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSnakeCase(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"SendHTTPWebhook": "send_http_webhook", "Greet": "greet", "HTTP": "http", "HTTPServer": "http_server",
		"UserID": "user_id", "X509Import": "x509_import", "SendV2Email": "send_v2_email", "Send_Email": "send_email",
		"FooV1": "foo_v1", "ABTest": "ab_test", "Send2FACode": "send2_fa_code", "Ärger": "ärger", "A": "a",
	} {
		require.Equal(t, want, SnakeCase(name), name)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Minute: "1m", 72 * time.Hour: "72h", 90 * time.Second: "1m30s", time.Hour + time.Second: "1h0m1s",
		500 * time.Millisecond: "500ms", 10 * time.Second: "10s", 20 * time.Minute: "20m", 1: "1ns", 90 * time.Minute: "1h30m",
	} {
		require.Equal(t, want, Short(d))
	}
}
