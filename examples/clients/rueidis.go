// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"

	"github.com/redis/rueidis"

	locks "github.com/getsetlock/getsetlock/adapters/rueidis"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// doc: rueidis

// FromRueidis opens locks by the options of a client of rueidis.
func FromRueidis(ctx context.Context, o rueidis.ClientOption) (*lock.Client, error) {
	return locks.Open(ctx, o, modern.Options{})
}

// doc: end
