// SPDX-License-Identifier: Apache-2.0

package out

import (
	"bytes"
	"strings"
	"testing"
)

// A connection has another local port each time. Another time of day is another
// event.
func TestSameWarningIsPrintedOnceAndCounted(t *testing.T) {
	var errs bytes.Buffer
	e := &Env{Stderr: &errs, told: &told{}}
	log := e.Logger(false)
	for _, port := range []string{"40001", "40002", "40003"} {
		log.Warn("lease not renewed", "key", "k", "until", "12:00:05",
			"error", "read tcp 127.0.0.1:"+port+"->127.0.0.1:6379: i/o timeout")
	}
	log.Warn("lease not renewed", "key", "k", "until", "12:00:35", "error", "i/o timeout")
	e.told.sum(e)
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "40001") || !strings.Contains(lines[1], "12:00:35") ||
		!strings.Contains(lines[2], "warning: 2 more times: lease not renewed") {
		t.Errorf("%q", lines)
	}
}
