// SPDX-License-Identifier: Apache-2.0

package dialect

import "time"

// at is an instant in milliseconds since 1970.
func at(millis int64) time.Time { return time.UnixMilli(millis) }
