"""The parameter server without locks: workers of one host change the parameters themselves.

Recht, Re, Wright and Niu 2011, "HOGWILD!: A Lock-Free Approach to Parallelizing Stochastic
Gradient Descent", NIPS.
"""
