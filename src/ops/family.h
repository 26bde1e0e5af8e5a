// family.h - the words that a file of an op family is written in: rows with their rules, shapes and
// kernels, and gradients and decompositions as programs of other ops.
#pragma once

#include "base/error.h"              // IWYU pragma: export
#include "base/fixed_text.h"         // IWYU pragma: export
#include "base/text.h"               // IWYU pragma: export
#include "kernels/kernel_id.h"       // IWYU pragma: export
#include "ops/core/arguments.h"      // IWYU pragma: export
#include "ops/core/derived.h"        // IWYU pragma: export
#include "ops/core/factor_rule.h"    // IWYU pragma: export
#include "ops/core/gradient_math.h"  // IWYU pragma: export
#include "ops/core/matmul.h"         // IWYU pragma: export
#include "ops/core/meta.h"           // IWYU pragma: export
#include "ops/core/pointwise.h"      // IWYU pragma: export
#include "ops/core/rules.h"          // IWYU pragma: export
#include "ops/core/view_meta.h"      // IWYU pragma: export
#include "ops/register.h"            // IWYU pragma: export
#include "schema/op_registry.h"      // IWYU pragma: export
#include "schema/op_row.h"           // IWYU pragma: export
