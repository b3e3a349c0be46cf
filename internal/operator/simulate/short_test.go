// SPDX-License-Identifier: Apache-2.0

package simulate

import "time"

// Short names for the tables of these tests.
const (
	ms  = time.Millisecond
	sec = time.Second
)
