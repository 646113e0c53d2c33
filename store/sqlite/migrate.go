package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schemaVersion is the user_version that the last migration sets.
const schemaVersion = 3

// migrate brings the schema up to date. A file that is up to date costs one pragma: the migrator itself is started
// only for one that is behind. A file of a newer version is refused, since its rules are unknown here.
func migrate(ctx context.Context, db *sql.DB, file string) error {
	var have int
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&have); err != nil {
		return fmt.Errorf("sqlite: open %s: %w", file, err)
	}
	switch {
	case have == schemaVersion:
		return nil
	case have > schemaVersion:
		return fmt.Errorf("sqlite: %s has schema version %d, made by a newer version of this program (it knows %d): "+
			"upgrade the program, or use another state directory", file, have, schemaVersion)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("sqlite: migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("sqlite: migrations: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("sqlite: migrate %s from schema version %d: %w", file, have, err)
	}
	return nil
}
