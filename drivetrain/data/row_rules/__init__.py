"""Rules for rows: read from a reviewed file, checked while rows are read, with a table for the rows that are put aside.

    columns:
      price:
        type: float64
        nulls: {then: quarantine, share: 0.01}
        min: 0
        below: 100000
      country: {values: [CH, DE, AT], mask: true}
      customer: {found_in: customers.id}
    sums: {total: {is: [net, tax], tolerance: 0.01, then: warn}}
    rows: {min: 1000}
    quarantine: {keep_days: 30, whole_rows: true}

A rule is its value (`min: 0`), or a mapping: `is` (the value), `then` (warn, quarantine or fail), and what is allowed,
`share` of the rows and number of `rows`. What travels into a container is JSON of the same form.
"""
