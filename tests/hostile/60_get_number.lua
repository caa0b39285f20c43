-- row: 60
-- where: plan
-- expect: error
-- says: argument 4 must be a text
return { a = fence.get('v1', 'pods', 'a', 1e308) }
