-- row: 60
-- where: nodes
-- expect: error
-- says: returned node 'a' as got
return { a = got }
