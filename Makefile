# The commands of the project. CGO is off everywhere but in the race job.
export CGO_ENABLED = 0
GO ?= go

.PHONY: build demo check fmt vet lint test race fuzz bench golden

build: ## bin/harness and bin/harnessd
	$(GO) build -trimpath -ldflags='-s -w' -o bin/ ./cmd/...

demo: ## fix a failing test in a real repository, with a scripted model and no key
	@bash examples/fix-failing-test/demo.sh

check: fmt vet lint test ## what must pass before a commit

fmt:
	@out=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); test -z "$$out" || { echo "not gofmt-ed:"; echo "$$out"; exit 1; }

vet:
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...

lint: ## staticcheck, from a module of its own (tools/)
	$(GO) -C tools build -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	bin/staticcheck ./...

test:
	$(GO) test ./...

race: ## needs gcc
	CGO_ENABLED=1 $(GO) test -race ./...

FUZZTIME ?= 5s
fuzz: ## every fuzz target for FUZZTIME
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p 2>/dev/null | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
	  done; done

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

golden: ## write every golden file anew; read the diff
	$(GO) test ./event ./internal/httpapi ./internal/cli/... ./internal/docgen ./tool/builtin -update
