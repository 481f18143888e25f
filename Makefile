# Everything a newcomer needs: `make demo` to see it, `make test` to trust it.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 5m
SIM      ?= 10m
KILLS    ?= 400
EVERY    ?= 1

# Nearly everything is compiled in one way, that of the release: what is checked, what is tested and the
# binary that most tests start. Packages that start goroutines are compiled once more, with the race detector.
# That leaves out SQLite, C made into Go, which takes four times as long under the
# detector; no other package may be left out, for instances of generic code are shared. Nor are
# conversions of pointers checked, which is a quarter of its cost: only SQLite makes them. Such
# a program sleeps for a second before it ends unless GORACE says otherwise.
export RACE   = -race -trimpath -gcflags=all=-d=checkptr=0 -gcflags=modernc.org/sqlite/lib=-race=false
export GORACE = atexit_sleep_ms=0

PLAIN = CGO_ENABLED=0 $(GO) test -trimpath
# What make test leaves out is compiled like the rest, too; make soak has it look for races.
MORE  = $(if $(RACING),$(GO) test $(RACE),$(PLAIN))
# It runs the tests in parts (test/suite/part.go), says where it is, and ends with a table.
SUITE = CGO_ENABLED=0 $(GO) run -trimpath ./test/suite

.PHONY: build demo demo-claude demo-codex demo-gemini demo-opencode generate test part test-changed test-more test-mcp test-clis test-clis-contract test-rpc test-control test-web test-scale test-engine test-versions release-snapshot deploy-lint picture shots test-python test-projects test-vendor test-schema check bench bench-against fuzz soak mutate plant clean

build: ## a static bin/tipstaff
	@VERSION='$(VERSION)' scripts/build.sh bin/ ./cmd/tipstaff $(BESIDE)

demo test: BESIDE = ./examples/fileserver # in one build: it shares most of what it links
demo: build ## five scenes: an approval, a kill, a proof, a delivery, the page
	@examples/demo.sh

demo-claude demo-codex demo-gemini demo-opencode: demo-%: build ## a change by a real coding CLI, with your account
	@examples/demo-cli.sh $*

generate: ## Go and Python code for the wire, from core.proto
	@scripts/wire.sh generate
	@scripts/python.sh generate

test: build ## every package; those with goroutines under the race detector
	@$(SUITE) test
	@echo 'not run: sweeps of kills, the rest under the race detector (make soak); fuzzing beyond the cases it has found (make fuzz)'
	@echo 'not run: what needs a registry, a server or a second module (make test-more)'

part: build ## one part of make test or make soak; PART=race is under the race detector, test/suite/part.go has the others
	@SIM=$(SIM) KILLS=$(KILLS) $(SUITE) $(PART)

test-changed: ## of what make test leaves out, what concerns the files that changed
	@scripts/fuzz.sh --changed
	@scripts/more.sh --changed

test-more: ## figures of the release, a Mac, 32 bits, gRPC clients of others, a network that fails, SDKs of vendors, coding CLIs, the control plane, the schema of tasks, a release
	@scripts/more.sh

test-mcp: ## real MCP servers from npm, and the protocol's conformance suite
	@scripts/mcp.sh
	TIPSTAFF_MCP=1 $(MORE) -shuffle=on -timeout 15m ./test/mcp

test-clis: build ## real coding CLIs from npm, with a model on loopback that says what a script tells it
	@scripts/clis.sh
	@rm -f .cache/clis/summary
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff TIPSTAFF_CLIS=1 $(MORE) -count=1 -timeout 20m -skip '^TestContract' ./test/clis; passed=$$?; cat .cache/clis/summary; exit $$passed

test-clis-contract: ## what the coding CLIs do by themselves, without Tipstaff
	@scripts/clis.sh
	TIPSTAFF_CLIS=1 $(MORE) -count=1 -timeout 20m -run '^TestContract' ./test/clis

test-rpc: ## the daemon against gRPC clients of others, a network that fails, and kills
	@scripts/rpc.sh
	TIPSTAFF_RPC=1 $(MORE) -shuffle=on -parallel 4 -timeout 10m ./test/grpc

test-control: build ## the control plane against programs of others: MCP clients, a browser, a generated client, Prometheus, load
	@scripts/control.sh
	@rm -f .cache/control/summary
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff TIPSTAFF_CONTROL=1 $(MORE) -json -count=1 -timeout 15m ./test/control | $(SUITE) -; passed=$$?; cat .cache/control/summary 2>/dev/null; exit $$passed

test-web: build ## the web page in a browser
	@scripts/web.sh
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff TIPSTAFF_WEB=1 $(MORE) -count=1 -timeout 45m -run '^TestBrowser' ./test/page

test-scale: build ## the store over Postgres, with payloads in an S3 bucket, with servers of their own; servers that share it, by themselves and under Temporal, while things fail
	scripts/postgres.sh scripts/s3.sh $(GO) test $(RACE) -count=1 -shuffle=on -timeout 40m -short ./postgres ./store/bucket
	scripts/postgres.sh env $(PLAIN) -tags postgres -count=1 -v -p 1 -run '^TestSimulatedInPostgres$$' ./plan ./pipeline ./agent
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff scripts/postgres.sh scripts/s3.sh env $(PLAIN) -count=1 -timeout 10m -run '^TestLargePayloads' ./cmd/tipstaff
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff scripts/postgres.sh env $(PLAIN) -count=1 -timeout 20m -run 'StoreCopy|DoctorOfADatabase|EveryCommandOverADatabase|Golden.*InPostgres' ./cmd/tipstaff ./test/golden
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff scripts/postgres.sh scripts/temporal.sh env $(PLAIN) -count=1 -v -timeout 80m ./test/scale

test-versions: build ## this version and an earlier one on one store, under kills and a migration
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff scripts/versions.sh scripts/postgres.sh --or-skip env $(PLAIN) -count=1 -timeout 20m -run '^TestVersions' ./cmd/tipstaff

release-snapshot: ## what a release of this commit would be: archives, sums, a signature, bills of materials; made twice, and tried
	@scripts/release.sh snapshot

deploy-lint: ## the files in deploy, by linters of others
	@scripts/deploy.sh

test-engine: build ## runs that Temporal schedules, with a server of its own; it takes minutes to compile
	scripts/temporal.sh $(GO) test $(RACE) -count=1 -shuffle=on -timeout 15m ./temporal
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff scripts/postgres.sh scripts/temporal.sh env $(PLAIN) -count=1 -timeout 15m -run Engine ./cmd/tipstaff

picture: build ## of README.md: a call of the real Claude Code that waits for an approval, in a browser, in both themes
	@scripts/clis.sh
	@scripts/web.sh
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff TIPSTAFF_CLIS=1 TIPSTAFF_PICTURE=$(CURDIR)/docs/images $(MORE) -count=1 -run '^TestPicture$$' ./test/clis

shots: build ## every page in both themes and two widths, as .cache/shots/*.png
	@scripts/web.sh
	@mkdir -p .cache/shots
	TIPSTAFF_BINARY=$(CURDIR)/bin/tipstaff TIPSTAFF_WEB=1 TIPSTAFF_SHOTS=$(CURDIR)/.cache/shots CGO_ENABLED=0 $(GO) test -trimpath -count=1 -timeout 15m -run '^TestBrowserPages$$' ./test/page

test-python: build ## the Python package: types, and tests against the binary
	@scripts/python.sh test

test-projects: ## real projects in Node, Python and Go get what they need in worktrees, from their registries
	TIPSTAFF_MORE=1 CGO_ENABLED=0 $(GO) test -trimpath -count=1 -timeout 20m ./test/projects

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

soak: build ## everything there is: all checks, hundreds of kills, every test in full under the race detector, make test-more, and the simulator for as long as SIM says
	@SIM=$(SIM) KILLS=$(KILLS) SEED=$$(date +%s)0000 $(SUITE) soak

mutate: ## code that no test checks; MUTATE=policy takes one package, EVERY=10 a tenth of its mutants; SAMPLE=300 so many of the whole product, the same ones every time
	$(if $(SAMPLE),CGO_ENABLED=0 GOFLAGS="$$($(GO) env GOFLAGS) -trimpath" )$(GO) run ./test/mutate $(if $(SAMPLE),-sample $(SAMPLE),-every $(EVERY) $(MUTATE))

plant: ## bugs put into the code one at a time, and which suite finds each; PLANT="ID…" takes some of them
	$(GO) run ./test/plant -only "$(PLANT)"

clean:
	rm -rf bin .cache
