# Everything a newcomer needs: `make demo` to see it, `make test` to trust it.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 5m
SIM      ?= 10m
EVERY    ?= 1

# Two ways to compile, so that nothing is compiled a third time: PLAIN as a release is, and
# RACE. That leaves out SQLite, C made into Go, which takes four times as long under the
# detector; no other package may be left out, for instances of generic code are shared.
PLAIN = CGO_ENABLED=0 GOFLAGS=-trimpath
RACE  = -race -gcflags=modernc.org/sqlite/lib=-race=false

.PHONY: build demo generate test test-mcp test-rpc test-python test-vendor check bench fuzz soak mutate clean

build: ## a static bin/tipstaff
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/tipstaff ./cmd/tipstaff

demo: build ## an agent, a plan, a kill, from start to proof
	$(GO) build -o bin/fileserver ./examples/fileserver
	@examples/demo.sh

generate: ## Go and Python code for the wire, from core.proto
	@scripts/wire.sh generate
	@scripts/python.sh generate

test: build ## everything, race detector and shuffle on; then what must run at full speed
	@scripts/mcp.sh --or-skip
	TIPSTAFF_FLOWTEST=1 TIPSTAFF_MCP=$$(cat .cache/mcp/there) $(GO) test $(RACE) -short -shuffle=on -timeout 20m ./...
	$(PLAIN) TIPSTAFF_SIM=15s $(GO) test -run '^(TestSchedules|TestSimulated|TestTheSameChoices.*|TestEveryFigure.*|TestOtherSystems)$$' . ./flow/simtest ./plan ./pipeline ./agent ./cmd/bench
	@GO=$(GO) scripts/arch.sh
	@scripts/python.sh test --or-skip

test-mcp: ## real MCP servers from npm, and the protocol's conformance suite
	@scripts/mcp.sh
	TIPSTAFF_MCP=1 $(GO) test $(RACE) -shuffle=on -timeout 15m ./test/mcp

test-rpc: ## the daemon against gRPC clients of others, a network that fails, and kills
	@scripts/rpc.sh
	TIPSTAFF_RPC=1 $(GO) test $(RACE) -shuffle=on -parallel 4 -timeout 10m ./test/grpc

test-python: build ## the Python package: types, and tests against the binary
	@scripts/python.sh test

test-vendor: ## requests and answers of models, with the vendors' own SDKs as referees; they take minutes to compile
	cd test/referee && $(GO) test -shuffle=on ./...

check: ## what must hold of the text: format, vet, lint, the wire
	@scripts/check.sh

bench: ## figures beside their limits, measured in one run
	$(GO) run ./cmd/bench

fuzz: ## every fuzz target for five minutes, or as long as FUZZTIME says
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh

soak: ## hundreds of kills, every test in full, and the simulator for as long as SIM says
	$(PLAIN) TIPSTAFF_SIM=$(SIM) TIPSTAFF_SIM_SEED=$$(date +%s)0000 $(GO) test -timeout 0 -run '^(TestSchedules|TestSimulated)$$' -v ./flow/simtest ./plan ./pipeline ./agent
	TIPSTAFF_KILLS=400 $(GO) test $(RACE) -timeout 60m -run Kill ./cmd/tipstaff
	TIPSTAFF_FLOWTEST=1 $(GO) test $(RACE) -shuffle=on -timeout 120m ./...

mutate: ## code that no test checks; MUTATE=policy takes one package, EVERY=10 a tenth of its mutants
	$(GO) run ./test/mutate -every $(EVERY) $(MUTATE)

clean:
	rm -rf bin .cache
