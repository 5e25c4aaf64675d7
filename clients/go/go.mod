module github.com/rushgate/rushgate/clients/go

go 1.19
