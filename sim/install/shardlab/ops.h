// ops.h - headers for programs that add ops of their own, and rules to existing ops. A row
// (schema/op_row.h) describes an op: its schema, shapes, rule, kernel or program, gradient.
// ops_with() of spmd.h hands out the registry; src/api/README.md has examples.
#pragma once

#include "ops/core/factor_rule.h"    // IWYU pragma: export
#include "ops/core/gradient_math.h"  // IWYU pragma: export
#include "ops/core/meta.h"           // IWYU pragma: export
#include "ops/core/rules.h"          // IWYU pragma: export
#include "schema/older_schema.h"     // IWYU pragma: export
#include "schema/op_registry.h"      // IWYU pragma: export
#include "schema/op_row.h"           // IWYU pragma: export
#include "schema/schema_queries.h"   // IWYU pragma: export
#include "shardlab/shardlab.h"       // IWYU pragma: export
