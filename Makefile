# Every target that people call has a line of help after two hashes.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PREFIX   ?= /usr/local
DESTDIR  ?=
GO       ?= go
IMAGE    ?= b

CONTAINERD    := v2.4.2
GOLANGCI_LINT := v2.15.0

TOOLS   := $(CURDIR)/.tools/bin
export FAASNET_CACHE ?= $(CURDIR)/.cache
RESULTS := $(FAASNET_CACHE)/test
MEASURED := $(FAASNET_CACHE)/results
LAB     := mkdir -p $(FAASNET_CACHE)/results; bin/faasnet-bench
CASES   := $(GO) run ./script/cases

# Where the race detector costs minutes and finds nothing, because the code under
# test runs in other processes or in one goroutine, or what `make sim` has it find.
NORACE := /(script/(e2e|lab|images)|cmd/internal/sim|convert/memory)$$

PROGRAMS := $(notdir $(patsubst %/main.go,%,$(wildcard cmd/*/main.go)))
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
VCS      := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)

help: ## this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the programs into bin/
	$(GO) build -trimpath -buildvcs=$(VCS) -ldflags "-X main.revision=$(VERSION)" -o bin/ $(PROGRAMS:%=./cmd/%)

demo: deps tools build ## convert a real image (or IMAGE=ref), start it on four VMs at once in a tree, beside full pulls, print what that saves
	bin/faasnet-bench demo --image $(IMAGE)

test: deps tools build ## vet, all tests, and the check that every case of docs/cases.md has a passing one
	$(GO) vet ./...
	mkdir -p $(RESULTS); rm -f $(RESULTS)/*.json
	status=0; packages=$$($(GO) list ./...)
	$(CASES) run -o $(RESULTS)/race.json $(GO) test -race -timeout 20m $$(grep -Ev '$(NORACE)' <<<"$$packages") || status=1
	$(CASES) run -v -o $(RESULTS)/e2e.json $(GO) test -p 1 -count 1 -timeout 25m $$(grep -E '$(NORACE)' <<<"$$packages") || status=1
	$(CASES) check $(RESULTS)/*.json || status=1
	exit $$status

soak: deps tools build ## the long end-to-end tests: 50 kills, 100 rounds of pull, run and remove
	FAASNET_SOAK=1 $(GO) test -v -count 1 -timeout 3h ./script/e2e
	$(GO) test -v -count 1 -timeout 1h -run RandomOperations ./cmd/internal/tree -tree.ops 1000000

sim: ## fleets in virtual time: 1,000 seeds, large bursts, faults; or VMS=n SEED=s SEEDS=n
	FAASNET_SIM=1 $(GO) test -v -count 1 -timeout 3h $(if $(VMS)$(SEED)$(SEEDS),-run TestSeeds) ./cmd/internal/sim
	$(if $(VMS)$(SEED)$(SEEDS),,SEEDS=50 $(GO) test -v -race -count 1 -timeout 1h -run 'TestSeeds|IsSeen' ./cmd/internal/sim)

bench: deps tools build images ## what converting and starting cost beside others: about 15 minutes
	$(LAB) convert --image b --json $(MEASURED)/convert.json
	$(LAB) start --image b --rate 200mbit --recorded --json $(MEASURED)/start.json

burst: deps tools build images ## bursts of 1, 8 and 16 VMs with and without trees, whole images, faults, and the relay: about two hours
	$(LAB) burst --image c --rate 50mbit --vms 1 --vms 8 --vms 16 --recorded --systems faasnet --systems faasnet-notree --json $(MEASURED)/burst-c.json
	$(LAB) burst --image b --rate 50mbit --vms 1 --vms 8 --vms 16 --recorded --systems faasnet --systems faasnet-notree --json $(MEASURED)/burst-b.json
	$(LAB) burst --image c --rate 50mbit --vms 8 --full --systems faasnet --stripes 1 --stripes 2 --json $(MEASURED)/burst-full.json
	$(LAB) burst --image c --rate 50mbit --vms 8 --systems faasnet --stripes 1 --stripes 2 --reps 5 --kill none \
		$(foreach who,root inner leaf,$(foreach how,kill stop link-down,--kill $(who):$(how)@4s)) --json $(MEASURED)/burst-faults.json
	$(LAB) relay --json $(MEASURED)/relay.json

benchmarks: bench burst ## all that docs/benchmarks.md says, beside other snapshotters, and the document itself: about eight hours
	$(LAB) compare --image b --rate 25mbit --recorded --vms 1 --vms 8 --vms 16 --json $(MEASURED)/compare-b.json
	$(LAB) compare --image c --rate 50mbit --recorded --vms 1 --vms 8 --vms 16 --systems stargz-nobg --systems faasnet --systems floor --json $(MEASURED)/compare-c.json
	$(LAB) micro --json $(MEASURED)/micro.json
	$(LAB) figure 14 --from $(MEASURED)/compare-b.json --json $(MEASURED)/figure-14.json
	for n in 15 18 20; do $(LAB) figure $$n --recorded --json $(MEASURED)/figure-$$n.json; done
	$(LAB) figure 16 --json $(MEASURED)/figure-16.json
	for f in scaling timeline many trace; do $(LAB) sim $$f --plot $(MEASURED) --json $(MEASURED)/sim-$$f.json; done
	$(LAB) sim calibrate --real $(MEASURED)/burst-c.json --json $(MEASURED)/sim-calibrate.json
	$(LAB) report --results $(MEASURED)

lint: $(TOOLS)/golangci-lint ## the linters of .golangci.yml, each chosen for a reason
	$(TOOLS)/golangci-lint run

install: build ## install the programs below PREFIX (and DESTDIR)
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 0755 $(PROGRAMS:%=bin/%) $(DESTDIR)$(PREFIX)/bin

deps: ## install the Debian packages that demo, tests and bench need, where missing
	script/deps.sh

tools: $(TOOLS)/containerd $(TOOLS)/ctr $(TOOLS)/containerd-shim-runc-v2 ## build containerd into .tools/bin

$(TOOLS)/containerd $(TOOLS)/ctr $(TOOLS)/containerd-shim-runc-v2:
	GOBIN=$(TOOLS) GOFLAGS= $(GO) install github.com/containerd/containerd/v2/cmd/$(@F)@$(CONTAINERD)

$(TOOLS)/golangci-lint:
	GOBIN=$(TOOLS) GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)

images: deps build ## build the test images a, b and c
	bin/faasnet-bench images a b c

clean: ## remove what was built, tools and images too
	rm -rf bin .tools $(FAASNET_CACHE)

.ONESHELL:
.PHONY: help build demo test soak sim bench burst lint install deps tools images clean
