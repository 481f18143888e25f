# Everything a newcomer needs: `make demo` to see it, `make test` to trust it.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 5m
SIM      ?= 10m
EVERY    ?= 1

# One way to compile for all checks and tests, and for the binary that they start, so that
# no package is compiled twice: with the race detector. That leaves out SQLite, C made into
# Go, which takes four times as long under the detector; no other package may be left out,
# for instances of generic code are shared. Such a program sleeps for a second before it
# ends unless GORACE says otherwise.
export RACE   = -race -gcflags=modernc.org/sqlite/lib=-race=false
export GORACE = atexit_sleep_ms=0
RACED = $(CURDIR)/.cache/race/tipstaff

# What must run at full speed is compiled as a release is.
PLAIN = CGO_ENABLED=0 $(GO) test -trimpath

.PHONY: build demo raced generate test test-changed test-more test-mcp test-rpc test-python test-vendor check bench fuzz soak mutate clean

build: ## a static bin/tipstaff
	@echo 'building bin/tipstaff: the first time this takes minutes, most of them for SQLite and the parsers of SQL'
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ ./cmd/tipstaff $(BESIDE)

demo: BESIDE = ./examples/fileserver
demo: build ## an agent, a plan, a kill, from start to proof
	@examples/demo.sh

raced: # the binary that tests start
	$(GO) build $(RACE) -ldflags "-s -w" -o $(dir $(RACED)) ./cmd/tipstaff ./examples/fileserver

generate: ## Go and Python code for the wire, from core.proto
	@scripts/wire.sh generate
	@scripts/python.sh generate

test: raced ## everything, race detector and shuffle on; then what must run at full speed
	@scripts/mcp.sh --or-skip
	TIPSTAFF_BINARY=$(RACED) TIPSTAFF_FLOWTEST=1 TIPSTAFF_SIM=5s TIPSTAFF_MCP=$$(cat .cache/mcp/there) \
		$(GO) test $(RACE) -json -vet=off -short -shuffle=on -timeout 20m ./... | $(GO) run $(RACE) ./test/report
	TIPSTAFF_SIM=15s $(PLAIN) -vet=off -run '^(TestSchedules|TestTheSameChoices.*)$$' ./flow/simtest
	@TIPSTAFF_BINARY=$(RACED) scripts/python.sh test --or-skip
	@echo 'not run: whole sweeps of kills and crashes (make soak), guided fuzzing (make fuzz), the vendors of models (make test-vendor),'
	@echo 'not run: the release, other systems, clients of others (make test-more)'

test-changed: ## of what make test leaves out, what concerns the files that changed
	@scripts/fuzz.sh --changed
	@scripts/more.sh --changed

test-more: ## the release and its figures, a Mac, 32 bits, gRPC clients of others, a network that fails
	@scripts/more.sh

test-mcp: raced ## real MCP servers from npm, and the protocol's conformance suite
	@scripts/mcp.sh
	TIPSTAFF_BINARY=$(RACED) TIPSTAFF_MCP=1 $(GO) test $(RACE) -shuffle=on -timeout 15m ./test/mcp

test-rpc: raced ## the daemon against gRPC clients of others, a network that fails, and kills
	@scripts/rpc.sh
	TIPSTAFF_BINARY=$(RACED) TIPSTAFF_RPC=1 $(GO) test $(RACE) -shuffle=on -parallel 4 -timeout 10m ./test/grpc

test-python: raced ## the Python package: types, and tests against the binary
	@TIPSTAFF_BINARY=$(RACED) scripts/python.sh test

test-vendor: ## requests and answers of models, with the vendors' own SDKs as referees; they take minutes to compile
	cd test/referee && $(GO) test -shuffle=on ./...

check: ## what must hold of the text: format, vet, lint, the wire
	@scripts/check.sh

bench: ## figures beside their limits, measured in one run
	$(GO) run ./cmd/bench

fuzz: ## every fuzz target for five minutes, or as long as FUZZTIME says
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh

soak: ## hundreds of kills, every test in full, and the simulator for as long as SIM says
	TIPSTAFF_SIM=$(SIM) TIPSTAFF_SIM_SEED=$$(date +%s)0000 $(PLAIN) -timeout 0 -run '^(TestSchedules|TestSimulated)$$' -v ./flow/simtest ./plan ./pipeline ./agent
	TIPSTAFF_KILLS=400 $(GO) test $(RACE) -timeout 60m -run Kill ./cmd/tipstaff
	TIPSTAFF_FLOWTEST=1 $(GO) test $(RACE) -shuffle=on -timeout 120m ./...

mutate: ## code that no test checks; MUTATE=policy takes one package, EVERY=10 a tenth of its mutants
	$(GO) run ./test/mutate -every $(EVERY) $(MUTATE)

clean:
	rm -rf bin .cache
