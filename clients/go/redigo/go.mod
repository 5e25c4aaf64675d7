module github.com/rushgate/rushgate/clients/go/redigo

go 1.19

require (
	github.com/gomodule/redigo v1.8.3
	github.com/rushgate/rushgate/clients/go v0.1.0
)

replace github.com/rushgate/rushgate/clients/go => ../
