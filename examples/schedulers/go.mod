module github.com/getsetlock/getsetlock/examples/schedulers

go 1.26.0

require (
	github.com/getsetlock/getsetlock v0.0.0-20261128025819-dd421f79fec2
	github.com/getsetlock/getsetlock/adapters/gocron v0.0.0-20261128025819-dd421f79fec2
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/gomodule/redigo v1.9.3
	github.com/jonboulle/clockwork v0.5.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/benbjohnson/clock v1.3.5 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
