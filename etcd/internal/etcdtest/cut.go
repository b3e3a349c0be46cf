// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Cut loses commands of one client while it is on. Transactions that write are
// carried out, but their replies are lost. Transactions that delete are lost.
// Reads and signs of life get through.
type Cut struct{ On atomic.Bool }

// Into puts the Cut into a client's Config.
func (c *Cut) Into(cfg *clientv3.Config) {
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(c.call))
}

func (c *Cut) call(ctx context.Context, method string, in, out any, conn *grpc.ClientConn,
	next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	txn, ok := in.(*etcdserverpb.TxnRequest)
	if !ok || !c.On.Load() || !writes(txn) {
		return next(ctx, method, in, out, conn, opts...)
	}
	if txn.Success[0].GetRequestPut() != nil {
		_ = next(ctx, method, in, out, conn, opts...)
	}
	return status.Error(codes.Unavailable, "the reply was lost")
}

func writes(txn *etcdserverpb.TxnRequest) bool {
	for _, op := range txn.Success {
		if op.GetRequestPut() != nil || op.GetRequestDeleteRange() != nil {
			return true
		}
	}
	return false
}
