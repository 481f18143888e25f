# Everything a newcomer needs: `make demo` to see it, `make test` to trust it.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 5s
SIM      ?= 10m
EVERY    ?= 1

.PHONY: build demo generate test test-mcp test-rpc test-python test-vendor check bench fuzz soak mutate clean

build: ## a static bin/tipstaff
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/tipstaff ./cmd/tipstaff

demo: build ## an agent, a plan, a kill, from start to proof
	$(GO) build -o bin/fileserver ./examples/fileserver
	@examples/demo.sh

generate: ## Go and Python code for the wire, from core.proto
	@scripts/wire.sh generate
	@scripts/python.sh generate

test: build ## everything, race detector and shuffle on, then every fuzz target for a moment
	$(GO) test -race -shuffle=on -timeout 20m ./...
	TIPSTAFF_SIM=20s $(GO) test -run '^(TestSchedules|TestSimulated|TestTheSameChoices.*)$$' ./flow/simtest ./plan ./pipeline
	TIPSTAFF_FLOWTEST=1 $(GO) test -race -shuffle=on -short -timeout 20m -run '^TestFlow$$' ./sqlite
	@GO=$(GO) scripts/arch.sh
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh
	@GO=$(GO) scripts/mcp.sh --or-skip
	@GO=$(GO) scripts/rpc.sh --or-skip
	@scripts/python.sh test --or-skip

test-mcp: ## real MCP servers from npm, and the protocol's conformance suite
	@GO=$(GO) scripts/mcp.sh

test-rpc: ## the daemon against gRPC clients of others, a network that fails, and kills
	@GO=$(GO) scripts/rpc.sh

test-python: build ## the Python package: types, and tests against the binary
	@scripts/python.sh test

test-vendor: ## requests and answers of models, with the vendors' own SDKs as referees; they take minutes to compile
	cd test/vendor && $(GO) test -shuffle=on ./...

check: ## what must hold of the text: format, vet, lint, the wire, README commands
	@scripts/check.sh

bench: ## figures beside their limits, measured in one run
	$(GO) run ./cmd/bench

fuzz: ## every fuzz target for five minutes
	@FUZZTIME=5m scripts/fuzz.sh

soak: ## hundreds of kills, and the simulator for as long as SIM says
	TIPSTAFF_SIM=$(SIM) TIPSTAFF_SIM_SEED=$$(date +%s)0000 $(GO) test -timeout 0 -run '^(TestSchedules|TestSimulated)$$' -v ./flow/simtest ./plan ./pipeline
	TIPSTAFF_KILLS=400 $(GO) test -race -timeout 60m -run Kill ./cmd/tipstaff
	TIPSTAFF_FLOWTEST=1 $(GO) test -timeout 60m -run '^TestFlow$$' ./sqlite

mutate: ## code that no test checks; MUTATE=policy takes one package, EVERY=10 a tenth of its mutants
	$(GO) run ./test/mutate -every $(EVERY) $(MUTATE)

clean:
	rm -rf bin .cache
