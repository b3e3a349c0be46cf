// SPDX-License-Identifier: Apache-2.0

package dialect

import "time"

// at is an instant in milliseconds since 1970.
func at(millis int64) time.Time { return time.UnixMilli(millis) }

// tableNow is the clock of most tests.
var tableNow = at(1_400_000_000_123)

const testUUID = "0f9d5a3c-8d0e-4c57-9a7b-2d1e6f3c4b5a"
