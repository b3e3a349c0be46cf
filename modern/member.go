package modern

import (
	"context"
	"errors"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

var errSkeleton = errors.New("modern: not built yet")

// String returns Config.Name.
func (b *Backend) String() string { return b.cfg.Name }

// Ready is the method of a quorum.Member.
func (b *Backend) Ready(ctx context.Context, age time.Duration) (server, version string, err error) {
	return "", "", errSkeleton
}

// TryAs is the method of a quorum.Member.
func (b *Backend) TryAs(ctx context.Context, server, key, token string, ttl time.Duration) (lock.Grant,
	error) {
	return nil, errSkeleton
}

// Raise is the method of a quorum.Member.
func (b *Backend) Raise(ctx context.Context, granted lock.Grant, number int64) error {
	return errSkeleton
}
