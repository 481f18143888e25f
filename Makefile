# Everything a newcomer needs: `make demo` to see it, `make test` to trust it.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 5m
SIM      ?= 10m
EVERY    ?= 1

# Checks and tests compile in one way, so that no package is compiled twice: with the race
# detector. That leaves out SQLite, C made into Go, which takes four times as long under the
# detector; no other package may be left out, for instances of generic code are shared. Nor are
# conversions of pointers checked, which is a quarter of its cost: only SQLite makes them. Such
# a program sleeps for a second before it ends unless GORACE says otherwise.
export RACE   = -race -gcflags=all=-d=checkptr=0 -gcflags=modernc.org/sqlite/lib=-race=false
export GORACE = atexit_sleep_ms=0

# What must run at full speed, and the binary that most tests start, is compiled as a release.
# So are packages that start no goroutine and share nothing (imports_test.go sees to that):
# the detector has nothing to find there, and makes their tests ten times as slow. And so are
# tests that do their work by starting that binary; those of MCP look for races in make test-mcp.
PLAIN      = CGO_ENABLED=0 $(GO) test -trimpath
# What go test prints, and then what was skipped and why.
REPORT     = $(GO) run $(RACE) ./test/report
SEQUENTIAL = ./document ./journal ./provider/file ./skill ./workspace
STARTING   = ./cmd/tipstaff ./docs ./test/golden ./test/mcp
# Tests that compute for long, one thing after another, in packages that have others for races.
COMPUTING  = TestRepliesAreSmall|TestViewsOfLargeRuns|TestTheSourcesAreClean|TestTheBrowsersCheckAgreesOnTheCorpus|TestHostileTextsAddNothing|TestHostileTextOfKin|TestHostileRecords|TestJournalOfManyRecords|TestMomentsGoOnFromCopies|TestLayoutsByHand|TestListsOfManyRuns|TestHostileExports|TestAResultThatAPersonGivesIsTheStagesOutput
COMPUTED   = . ./runner ./web/page ./test/page
# Tests wait about as long as they compute: three packages keep two cores busy.
AT_ONCE    = -p $$(($$(nproc 2>/dev/null || echo 2) * 3 / 2))

.PHONY: build demo generate test test-changed test-more test-mcp test-clis test-clis-contract test-rpc test-control test-web test-scale test-engine deploy-lint shots test-python test-vendor test-schema check bench bench-against fuzz soak mutate clean

build: ## a static bin/tipstaff
	@echo 'building bin/tipstaff; the first time, modules are downloaded and all of them compiled, which takes minutes'
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ ./cmd/tipstaff $(BESIDE)

demo test: BESIDE = ./examples/fileserver # in one build: it shares most of what it links
demo: build ## an agent, a plan, a kill, from start to proof
	@examples/demo.sh

generate: ## Go and Python code for the wire, from core.proto
	@scripts/wire.sh generate
	@scripts/python.sh generate

test: build ## everything, race detector and shuffle on; then what must run at full speed
	@scripts/mcp.sh --or-skip
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff TIPSTAFF_FLOWTEST=sqlite TIPSTAFF_SIM=5s \
		$(GO) test $(RACE) $(AT_ONCE) -ldflags='-s -w' -json -vet=off -short -shuffle=on -timeout 20m -skip '^($(COMPUTING))$$' $$($(GO) list ./... | grep -vxF "$$($(GO) list $(SEQUENTIAL) $(STARTING))") | $(REPORT)
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff TIPSTAFF_MCP=$$(cat .cache/mcp/there) TIPSTAFF_MCP_COMMAND=$(CURDIR)/bin/tipstaff \
		$(PLAIN) $(AT_ONCE) -json -vet=off -short -shuffle=on -timeout 20m $(STARTING) | $(REPORT)
	$(PLAIN) -json -vet=off -short -shuffle=on -run '^($(COMPUTING))$$' $(COMPUTED) | $(REPORT)
	TIPSTAFF_SIM=15s $(PLAIN) -json -vet=off -shuffle=on -run '^(TestSchedules|TestTheSameChoices.*|TestTooLarge.*)$$' ./flow/simtest ./flow ./runner ./test/rpc | $(REPORT)
	TIPSTAFF_FLOWTEST=memory $(PLAIN) -json -vet=off -short -shuffle=on $(SEQUENTIAL) ./store | $(REPORT)
	@scripts/python.sh test --or-skip
	@echo 'not run: whole sweeps of kills and crashes (make soak); fuzzing beyond the cases it has found (make fuzz)'
	@echo 'not run: figures of the release, a Mac, 32 bits, gRPC clients of others, SDKs of vendors, coding CLIs, the control plane with programs of others, the schema of tasks (make test-more)'

test-changed: ## of what make test leaves out, what concerns the files that changed
	@scripts/fuzz.sh --changed
	@scripts/more.sh --changed

test-more: ## figures of the release, a Mac, 32 bits, gRPC clients of others, a network that fails, SDKs of vendors, coding CLIs, the control plane, the schema of tasks
	@scripts/more.sh

test-mcp: ## real MCP servers from npm, and the protocol's conformance suite
	@scripts/mcp.sh
	TIPSTAFF_MCP=1 $(GO) test $(RACE) -shuffle=on -timeout 15m ./test/mcp

test-clis: build ## real coding CLIs from npm, with a model on loopback that says what a script tells it
	@scripts/clis.sh
	@rm -f .cache/clis/summary
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff TIPSTAFF_CLIS=1 $(GO) test $(RACE) -count=1 -timeout 20m -skip '^TestContract' ./test/clis; passed=$$?; cat .cache/clis/summary; exit $$passed

test-clis-contract: ## what the coding CLIs do by themselves, without Tipstaff
	@scripts/clis.sh
	TIPSTAFF_CLIS=1 $(GO) test $(RACE) -count=1 -timeout 20m -run '^TestContract' ./test/clis

test-rpc: ## the daemon against gRPC clients of others, a network that fails, and kills
	@scripts/rpc.sh
	TIPSTAFF_RPC=1 $(GO) test $(RACE) -shuffle=on -parallel 4 -timeout 10m ./test/grpc

test-control: build ## the control plane against programs of others: MCP clients, a browser, a generated client, Prometheus, load
	@scripts/control.sh
	@rm -f .cache/control/summary
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff TIPSTAFF_CONTROL=1 $(GO) test $(RACE) -json -count=1 -timeout 15m ./test/control | $(REPORT); passed=$$?; cat .cache/control/summary 2>/dev/null; exit $$passed

test-web: build ## the web page in a browser
	@scripts/web.sh
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff TIPSTAFF_WEB=1 $(GO) test $(RACE) -count=1 -timeout 45m -run '^TestBrowser' ./test/page

test-scale: build ## the store over Postgres, with payloads in an S3 bucket, with servers of their own; servers that share it, by themselves and under Temporal, while things fail
	scripts/postgres.sh scripts/s3.sh $(GO) test $(RACE) -count=1 -shuffle=on -timeout 40m -short ./postgres ./store/bucket
	scripts/postgres.sh env $(PLAIN) -count=1 -v -p 1 -run '^TestSimulatedInPostgres$$' ./plan ./pipeline ./agent
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff scripts/postgres.sh scripts/s3.sh env $(PLAIN) -count=1 -timeout 10m -run '^TestLargePayloads' ./cmd/tipstaff
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff scripts/postgres.sh env $(PLAIN) -count=1 -timeout 20m -run 'StoreCopy|DoctorOfADatabase|GoldenInPostgres' ./cmd/tipstaff ./test/golden
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff scripts/postgres.sh scripts/temporal.sh env $(PLAIN) -count=1 -v -timeout 80m ./test/scale

deploy-lint: ## the files in deploy, by linters of others
	@scripts/deploy.sh

test-engine: build ## runs that Temporal schedules, with a server of its own; it takes minutes to compile
	scripts/temporal.sh $(GO) test $(RACE) -count=1 -shuffle=on -timeout 15m ./temporal
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff scripts/postgres.sh scripts/temporal.sh env $(PLAIN) -count=1 -timeout 15m -run Engine ./cmd/tipstaff

shots: build ## every page in both themes and two widths, as .cache/shots/*.png
	@scripts/web.sh
	@mkdir -p .cache/shots
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff TIPSTAFF_WEB=1 TIPSTAFF_SHOTS=$(CURDIR)/.cache/shots CGO_ENABLED=0 $(GO) test -trimpath -count=1 -timeout 15m -run '^TestBrowserPages$$' ./test/page

test-python: build ## the Python package: types, and tests against the binary
	@scripts/python.sh test

test-vendor: ## requests and answers of models, with the vendors' own SDKs as referees; they take minutes to compile
	cd test/referee && $(GO) test -shuffle=on ./...

test-schema: ## the published schema of tasks, with CUE, against the validator
	cd test/cue && $(GO) test -shuffle=on ./...

check: ## what must hold of the text: format, vet, lint, the wire
	@scripts/check.sh

bench: build ## figures beside their limits and goals, measured in one run; fails where a limit is broken
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o .cache/bench/ ./cmd/bench
	@.cache/bench/bench -tipstaff bin/tipstaff

bench-against: build ## an earlier commit, REF=commit, and this one measured in turns; fails where a row is slower, twice
	@$(if $(REF),,$(error name the earlier commit: make bench-against REF=commit))
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o .cache/bench/ ./cmd/bench
	@.cache/bench/bench -tipstaff bin/tipstaff -against $(REF)

fuzz: ## every fuzz target for five minutes, or as long as FUZZTIME says
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh

soak: ## hundreds of kills, every test in full, and the simulator for as long as SIM says
	TIPSTAFF_SIM=$(SIM) TIPSTAFF_SIM_SEED=$$(date +%s)0000 $(PLAIN) -timeout 0 -run '^(TestSchedules|TestSimulated)$$' -v ./flow/simtest ./plan ./pipeline ./agent
	TIPSTAFF_KILLS=400 $(GO) test $(RACE) -timeout 60m -run Kill ./cmd/tipstaff
	TIPSTAFF_FLOWTEST=sqlite,memory $(GO) test $(RACE) -shuffle=on -timeout 120m ./...

mutate: ## code that no test checks; MUTATE=policy takes one package, EVERY=10 a tenth of its mutants
	$(GO) run ./test/mutate -every $(EVERY) $(MUTATE)

clean:
	rm -rf bin .cache
