// SPDX-License-Identifier: Apache-2.0

// Package movetest has tests of package zookeeper that need Redis too. It is a
// module of its own, so that package zookeeper does not depend on Redis.
package movetest
