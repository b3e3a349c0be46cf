// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"

	"github.com/valkey-io/valkey-go"

	"github.com/getsetlock/getsetlock/adapters/valkeygo"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// doc: valkey-go

// FromValkey opens locks by the options of a client of valkey-go.
func FromValkey(ctx context.Context, o valkey.ClientOption) (*lock.Client, error) {
	return valkeygo.Open(ctx, o, modern.Options{})
}

// doc: end
